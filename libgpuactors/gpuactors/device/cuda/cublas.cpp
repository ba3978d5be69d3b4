// Matrix products by cuBLAS.
#include <gpuactors/device/cuda/cublas.hpp>
#include <gpuactors/device/cuda/error_class.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

namespace gpuactors::cuda {

static_assert(classify_cublas_error(CUBLAS_STATUS_ALLOC_FAILED) == Errc::out_of_memory);
static_assert(classify_cublas_error(CUBLAS_STATUS_INVALID_VALUE) == Errc::invalid_argument);
static_assert(classify_cublas_error(CUBLAS_STATUS_NOT_SUPPORTED) == Errc::unsupported);
static_assert(classify_cublas_error(CUBLAS_STATUS_EXECUTION_FAILED) == Errc::launch_failed);

Result<Cublas> load_cublas() {
  const auto name = fmt::format("libcublas.so.{}", CUDA_VERSION / 1000);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(Errc::unsupported,
                fmt::format("no cuBLAS for CUDA {} on this machine ({} was not found)", CUDA_VERSION / 1000, name));
  Cublas cublas;
  const char* missing = nullptr;
#define GPUACTORS_CUBLAS_RESOLVE(member, function)                                                                     \
  cublas.member = reinterpret_cast<decltype(cublas.member)>(dlsym(library, #function));                                \
  if (cublas.member == nullptr)                                                                                        \
    missing = #function;
  GPUACTORS_CUBLAS_TABLE(GPUACTORS_CUBLAS_RESOLVE)
#undef GPUACTORS_CUBLAS_RESOLVE
  if (missing != nullptr)
    return fail(Errc::unsupported, fmt::format("{} is too old: it has no {}", name, missing));
  return cublas;
}

Result<void> check(const Cublas& cublas, cublasStatus_t status, const char* api, int device) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return {};
  const char* name = cublas.get_status_name(status);
  return fail(classify_cublas_error(static_cast<int>(status)),
              fmt::format("{}: {} ({}) on device {}", api, name != nullptr ? name : "an unknown status",
                          static_cast<int>(status), device));
}

} // namespace gpuactors::cuda
