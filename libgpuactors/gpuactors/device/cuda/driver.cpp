// Loading the CUDA driver.
#include <gpuactors/device/cuda/check.hpp>
#include <gpuactors/device/cuda/driver.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

namespace gpuactors::cuda {

static_assert(CUDA_VERSION >= 12050, "the CUDA Toolkit 12.5 or later is needed to build; drivers may be older");

namespace {

Failure too_old(std::string_view missing) {
  return fail(Errc::unsupported, fmt::format("the CUDA driver is too old ({} is missing): CUDA {}.{} or "
                                             "later is needed",
                                             missing, least_driver_version / 1000, least_driver_version % 1000 / 10));
}

/// What else goes wrong than that there is no GPU is no reason to go on without one in silence.
Result<void> start(const Driver& driver) {
  const auto started = driver.init(0);
  auto outcome = check(driver, started, "cuInit", {-1, Errc::unavailable, {}});
  if (outcome || started == CUDA_ERROR_NO_DEVICE || started == CUDA_ERROR_STUB_LIBRARY)
    return outcome;
  const auto code = outcome.error().code();
  return code == Errc::unsupported || code == Errc::device_lost ? fail(Errc::unavailable, outcome.error().message())
                                                                : std::move(outcome);
}

} // namespace

Result<Driver> load_driver() {
  // Never unloaded: the driver has threads of its own.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(Errc::unsupported, "no CUDA driver on this machine (libcuda.so.1 was not found)");
  const auto find = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr)
    return too_old("cuGetProcAddress_v2");
  Driver driver;
  const char* missing = nullptr;
  const auto resolve = [&](const char* name, int version) -> void* {
    void* function = nullptr;
    auto status = CU_GET_PROC_ADDRESS_SUCCESS;
    // Success does not mean that there is one: all three say so, each for other reasons.
    if (find(name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &status) != CUDA_SUCCESS
        || status != CU_GET_PROC_ADDRESS_SUCCESS || function == nullptr) {
      missing = name;
      return nullptr;
    }
    return function;
  };
#define GPUACTORS_CUDA_RESOLVE(name, function, version)                                                                \
  driver.name = reinterpret_cast<decltype(driver.name)>(resolve(#function, version));
  GPUACTORS_CUDA_DRIVER_TABLE(GPUACTORS_CUDA_RESOLVE)
  if (missing != nullptr)
    return too_old(missing);
  GPUACTORS_CUDA_GREEN_TABLE(GPUACTORS_CUDA_RESOLVE)
  driver.missing_for_green = missing;
  GPUACTORS_CUDA_OPTIONAL_TABLE(GPUACTORS_CUDA_RESOLVE)
#undef GPUACTORS_CUDA_RESOLVE
  GPUACTORS_TRY(start(driver));
  GPUACTORS_TRY(
      check(driver, driver.driver_get_version(&driver.version), "cuDriverGetVersion", {-1, Errc::unsupported, {}}));
  if (driver.version < least_driver_version)
    return fail(Errc::unsupported, fmt::format("the CUDA driver is too old (CUDA {}.{}): CUDA {}.{} or later is needed",
                                               driver.version / 1000, driver.version % 1000 / 10,
                                               least_driver_version / 1000, least_driver_version % 1000 / 10));
  return driver;
}

} // namespace gpuactors::cuda
