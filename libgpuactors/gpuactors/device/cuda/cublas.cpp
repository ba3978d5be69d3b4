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

void CublasHandle::close() noexcept {
  if (handle_ != nullptr)
    (void)cublas_.destroy(handle_);
  handle_ = nullptr;
}

Result<void> CublasHandle::open(void* workspace, std::size_t workspace_bytes, int sms) {
  workspace_ = workspace;
  workspace_bytes_ = workspace_bytes;
  GPUACTORS_TRY(check(cublas_, cublas_.create(&handle_), "cublasCreate", device_));
  if (sms == 0)
    return {};
  auto targeted = check(cublas_, cublas_.set_sm_count_target(handle_, sms), "cublasSetSmCountTarget", device_);
  if (!targeted)
    close();
  return targeted;
}

Result<void> CublasHandle::gemm(const Gemm& g, CUstream stream) {
  GPUACTORS_TRY(check(cublas_, cublas_.set_stream(handle_, stream), "cublasSetStream", device_));
  // Setting a stream puts the library's own workspace back in place, which no quota counts.
  GPUACTORS_TRY(
      check(cublas_, cublas_.set_workspace(handle_, workspace_, workspace_bytes_), "cublasSetWorkspace", device_));
  // cuBLAS is column-major: read so, our C is its transpose, which is op(B)^T op(A)^T. So the operands swap places and
  // keep their flags.
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  if (g.dtype == DType::f32) {
    const auto alpha = static_cast<float>(g.alpha);
    const auto beta = static_cast<float>(g.beta);
    return check(cublas_,
                 cublas_.sgemm(handle_, op(g.transpose_b), op(g.transpose_a), g.n, g.m, g.k, &alpha,
                               static_cast<const float*>(g.b), g.ldb, static_cast<const float*>(g.a), g.lda, &beta,
                               static_cast<float*>(g.c), g.ldc),
                 "cublasSgemm", device_);
  }
  return check(cublas_,
               cublas_.dgemm(handle_, op(g.transpose_b), op(g.transpose_a), g.n, g.m, g.k, &g.alpha,
                             static_cast<const double*>(g.b), g.ldb, static_cast<const double*>(g.a), g.lda, &g.beta,
                             static_cast<double*>(g.c), g.ldc),
               "cublasDgemm", device_);
}

} // namespace gpuactors::cuda
