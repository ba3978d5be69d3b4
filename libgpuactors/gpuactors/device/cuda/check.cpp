// Texts of driver errors, and the proof that the classification knows CUDA's numbers.
#include <gpuactors/device/cuda/check.hpp>
#include <gpuactors/device/cuda/error_class.hpp>

#include <fmt/format.h>

namespace gpuactors::cuda {

namespace {

constexpr bool is_lost(CUresult result) {
  return classify_driver_error(static_cast<int>(result), Errc::internal) == Errc::context_lost;
}

static_assert(is_lost(CUDA_ERROR_DEINITIALIZED) && is_lost(CUDA_ERROR_ECC_UNCORRECTABLE)
              && is_lost(CUDA_ERROR_NVLINK_UNCORRECTABLE) && is_lost(CUDA_ERROR_ILLEGAL_ADDRESS)
              && is_lost(CUDA_ERROR_LAUNCH_TIMEOUT) && is_lost(CUDA_ERROR_CONTEXT_IS_DESTROYED)
              && is_lost(CUDA_ERROR_ASSERT) && is_lost(CUDA_ERROR_HARDWARE_STACK_ERROR)
              && is_lost(CUDA_ERROR_ILLEGAL_INSTRUCTION) && is_lost(CUDA_ERROR_MISALIGNED_ADDRESS)
              && is_lost(CUDA_ERROR_INVALID_ADDRESS_SPACE) && is_lost(CUDA_ERROR_INVALID_PC)
              && is_lost(CUDA_ERROR_LAUNCH_FAILED) && is_lost(CUDA_ERROR_MPS_CLIENT_TERMINATED)
              && is_lost(CUDA_ERROR_MPS_RPC_FAILURE) && is_lost(CUDA_ERROR_EXTERNAL_DEVICE)
              && is_lost(CUDA_ERROR_UNKNOWN));
static_assert(!is_lost(CUDA_ERROR_OUT_OF_MEMORY) && !is_lost(CUDA_ERROR_INVALID_VALUE)
              && !is_lost(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) && !is_lost(CUDA_ERROR_NOT_FOUND)
              && !is_lost(CUDA_ERROR_NOT_READY));
static_assert(classify_driver_error(CUDA_ERROR_OUT_OF_MEMORY, Errc::internal) == Errc::out_of_memory);
static_assert(classify_driver_error(CUDA_ERROR_NO_DEVICE, Errc::internal) == Errc::device_lost);
static_assert(classify_driver_error(CUDA_ERROR_STUB_LIBRARY, Errc::internal) == Errc::unsupported);
static_assert(classify_driver_error(CUDA_ERROR_NO_BINARY_FOR_GPU, Errc::internal) == Errc::unsupported);
static_assert(classify_driver_error(CUDA_ERROR_MPS_SERVER_NOT_READY, Errc::internal) == Errc::unavailable);

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// What to do about it, where the name of the error does not say it; mostly nothing.
std::string advice(const Driver& driver, CUresult result) {
  if (result != CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    return {};
  return fmt::format(
      "; there is no machine code for this GPU, and its driver (CUDA {}) takes no PTX of a later compiler "
      "(this library was built with CUDA {}): update the driver, or build with code for this GPU "
      "(GPUACTORS_CUDA_GENCODE)",
      version_text(driver.version), version_text(CUDA_VERSION));
}

} // namespace

Result<void> check(const Driver& driver, CUresult result, const char* api, const CallSite& site) {
  if (result == CUDA_SUCCESS)
    return {};
  const char* name = nullptr;
  if (driver.get_error_name == nullptr || driver.get_error_name(result, &name) != CUDA_SUCCESS || name == nullptr)
    name = "an error unknown to this driver";
  auto text = fmt::format("{}: {} ({})", api, name, static_cast<int>(result));
  if (site.device >= 0)
    text += fmt::format(" on device {}", site.device);
  if (!site.detail.empty())
    text += ", " + site.detail;
  text += advice(driver, result);
  return fail(classify_driver_error(static_cast<int>(result), site.otherwise), std::move(text));
}

} // namespace gpuactors::cuda
