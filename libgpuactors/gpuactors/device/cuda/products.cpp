// Starting matrix products.
#include <gpuactors/device/cuda/products.hpp>
#include <gpuactors/device/cuda/sm_target.hpp>

#include <fmt/format.h>

namespace gpuactors::cuda {

namespace {

/// cuBLAS is column-major: read so, our C is its transpose, which is op(B)^T op(A)^T. So the operands swap places and
/// keep their flags.
cublasOperation_t op(bool transpose) {
  return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cudaDataType type_of(DType dtype) {
  return dtype == DType::f16 ? CUDA_R_16F : dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

} // namespace

Products::~Products() {
  const Current current{*primary_};
  for (auto* handle : idle_)
    (void)cublas_.destroy(handle);
}

Result<cublasHandle_t> Products::take() {
  {
    const std::lock_guard guard{mutex_};
    if (!idle_.empty()) {
      auto* handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
  }
  cublasHandle_t handle = nullptr;
  const auto created = cublas_.create(&handle);
  auto outcome = check(cublas_, created, "cublasCreate", primary_->ordinal());
  if (outcome)
    return handle;
  // It takes memory of the device, and does not say so where there is none left.
  if (created == CUBLAS_STATUS_NOT_INITIALIZED) {
    GPUACTORS_TRY(primary_->probe());
    return fail(Errc::out_of_memory,
                fmt::format("{}: as a rule, the device has no memory left for it", outcome.error().message()));
  }
  return fail(outcome.error());
}

Result<void> Products::start(const Gemm& product, const Place& place) {
  GPUACTORS_LET(handle, take());
  auto started = start(product, place, handle);
  give_back(handle);
  return started;
}

void Products::give_back(cublasHandle_t handle) {
  const std::lock_guard guard{mutex_};
  idle_.push_back(handle);
}

Result<std::shared_ptr<cublasContext>> Products::reserve() {
  GPUACTORS_LET(handle, take());
  std::shared_ptr<cublasContext> lent{handle, [this](cublasHandle_t one) { give_back(one); }};
  GPUACTORS_LET(other, take());
  give_back(other);
  return lent;
}

Result<void> Products::start(const Gemm& g, const Place& place, cublasHandle_t handle) const {
  const auto device = primary_->ordinal();
  GPUACTORS_TRY(check(cublas_, cublas_.set_stream(handle, place.stream), "cublasSetStream", device));
  // Setting a stream puts the library's own workspace back in place, which no quota counts.
  GPUACTORS_TRY(check(cublas_, cublas_.set_workspace(handle, place.workspace, place.workspace_bytes),
                      "cublasSetWorkspace", device));
  GPUACTORS_TRY(
      check(cublas_, cublas_.set_sm_count_target(handle, sm_target(g, place.sms)), "cublasSetSmCountTarget", device));
  if (g.dtype == DType::f32) {
    const auto alpha = static_cast<float>(g.alpha);
    const auto beta = static_cast<float>(g.beta);
    return check(cublas_,
                 cublas_.sgemm(handle, op(g.transpose_b), op(g.transpose_a), g.n, g.m, g.k, &alpha,
                               static_cast<const float*>(g.b), g.ldb, static_cast<const float*>(g.a), g.lda, &beta,
                               static_cast<float*>(g.c), g.ldc),
                 "cublasSgemm", device);
  }
  if (g.dtype != DType::f64)
    return start_16_bit(handle, g);
  return check(cublas_,
               cublas_.dgemm(handle, op(g.transpose_b), op(g.transpose_a), g.n, g.m, g.k, &g.alpha,
                             static_cast<const double*>(g.b), g.ldb, static_cast<const double*>(g.a), g.lda, &g.beta,
                             static_cast<double*>(g.c), g.ldc),
               "cublasDgemm", device);
}

Result<void> Products::start_16_bit(cublasHandle_t handle, const Gemm& g) const {
  // Without this flag the sums of parts of k, which meet at the end, may be rounded to the type of C first.
  GPUACTORS_TRY(check(cublas_, cublas_.set_math_mode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                      "cublasSetMathMode", primary_->ordinal()));
  const auto alpha = static_cast<float>(g.alpha);
  const auto beta = static_cast<float>(g.beta);
  return check(cublas_,
               cublas_.gemm_ex(handle, op(g.transpose_b), op(g.transpose_a), g.n, g.m, g.k, &alpha, g.b,
                               type_of(g.dtype), g.ldb, g.a, type_of(g.dtype), g.lda, &beta, g.c,
                               type_of(g.result_type()), g.ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
               "cublasGemmEx", primary_->ordinal());
}

} // namespace gpuactors::cuda
