// libcublas for tests: column-major products by plain loops, in stream order, with cuBLAS's rules about workspaces.
#include <cublas_v2.h>
#include <device/fake_cuda/driver.hpp>
#include <device/fake_cuda/graphs.hpp>
#include <device/fake_cuda/green.hpp>
#include <device/fake_cuda/pools.hpp>

using namespace gpuactors;
using fake::machine;

namespace {

struct FakeHandle {
  cudaStream_t stream = nullptr;
  /// Gone whenever a stream is set.
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  /// 0: the whole device.
  int sm_target = 0;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  /// Between setting a stream and the end of the product.
  std::atomic<bool> used = false;
};

std::atomic<int> last_target{0};
std::atomic<int> created{0};
std::atomic<int> destroyed{0};

/// `In` is the type of A and B, `Out` of C, `Factor` of alpha and beta.
template <class In, class Out = In, class Factor = In>
struct Product {
  bool transpose_a;
  bool transpose_b;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  Factor alpha;
  const In* a;
  std::int64_t lda;
  const In* b;
  std::int64_t ldb;
  Factor beta;
  Out* c;
  std::int64_t ldc;
};

template <class In, class Out, class Factor>
void multiply(std::uint64_t, std::uint64_t, const void* pack) {
  const auto& p = *static_cast<const Product<In, Out, Factor>*>(pack);
  for (std::int64_t column = 0; column < p.n; ++column)
    for (std::int64_t row = 0; row < p.m; ++row) {
      double sum = 0;
      for (std::int64_t i = 0; i < p.k; ++i) {
        const auto a = p.transpose_a ? p.a[row * p.lda + i] : p.a[i * p.lda + row];
        const auto b = p.transpose_b ? p.b[i * p.ldb + column] : p.b[column * p.ldb + i];
        sum += static_cast<double>(a) * static_cast<double>(b);
      }
      auto& c = p.c[column * p.ldc + row];
      const auto before = p.beta == Factor{0} ? 0.0 : static_cast<double>(p.beta) * static_cast<double>(c);
      c = static_cast<Out>(static_cast<double>(p.alpha) * sum + before);
    }
}

template <class In, class Out, class Factor>
cublasStatus_t submit(cublasHandle_t handle, Product<In, Out, Factor> product) {
  fake::need_context("cublasGemm");
  auto* fake = reinterpret_cast<FakeHandle*>(handle);
  if (fake->workspace == nullptr)
    fake::misuse("a product without a workspace of the user's");
  if (fake->workspace_bytes > fake::left_of_pool(reinterpret_cast<CUdeviceptr>(fake->workspace)))
    fake::misuse("a product with a workspace that no pool has given out, or not whole");
  const auto sms = fake::sms_of(fake->stream);
  if (fake->sm_target != 0 && (sms == fake::sm_count || fake->sm_target > static_cast<int>(sms)))
    fake::misuse("a product for more SMs than those that it runs on");
  fake::note_work(fake->stream);
  last_target = fake->sm_target;
  fake->used = false;
  if (machine().sticky != 0)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto rows_a = product.transpose_a ? product.k : product.m;
  const auto rows_b = product.transpose_b ? product.n : product.k;
  if (product.lda < rows_a || product.ldb < rows_b || product.ldc < product.m)
    return CUBLAS_STATUS_INVALID_VALUE;
  const KernelInfo info{"gemm", &multiply<In, Out, Factor>, nullptr};
  const auto queued = machine().backend->launch(info, {}, &product, sizeof(product), {fake->stream});
  return queued ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/// C of the type of A and B or of float32, as cuBLAS has it for sums in float32.
template <class In>
cublasStatus_t submit_16_bit(cublasHandle_t handle, cudaDataType out, Product<In, In, float> p) {
  if (out != CUDA_R_32F)
    return submit(handle, p);
  return submit<In, float, float>(handle, {p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.alpha, p.a, p.lda, p.b, p.ldb,
                                           p.beta, reinterpret_cast<float*>(p.c), p.ldc});
}

} // namespace

extern "C" {

int fake_cublas_created() {
  return created;
}

int fake_cublas_destroyed() {
  return destroyed;
}

int fake_cublas_last_target() {
  return last_target;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  fake::need_context("cublasCreate");
  if (fake::is_capturing())
    fake::misuse("a handle of cuBLAS was made while a stream is captured");
  if (const auto planned = fake::planned("cublasCreate"); planned != CUDA_SUCCESS)
    return static_cast<cublasStatus_t>(planned);
  *handle = reinterpret_cast<cublasHandle_t>(new FakeHandle);
  ++fake::live;
  ++created;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  fake::need_context("cublasDestroy");
  delete reinterpret_cast<FakeHandle*>(handle);
  --fake::live;
  ++destroyed;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  auto* fake = reinterpret_cast<FakeHandle*>(handle);
  if (fake->used.exchange(true))
    fake::misuse("a handle of cuBLAS was used by two threads at once");
  fake->stream = stream;
  fake->workspace = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  constexpr std::uintptr_t alignment = 256;
  if (reinterpret_cast<std::uintptr_t>(workspace) % alignment != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  reinterpret_cast<FakeHandle*>(handle)->workspace = workspace;
  reinterpret_cast<FakeHandle*>(handle)->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int sms) {
  reinterpret_cast<FakeHandle*>(handle)->sm_target = sms;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  reinterpret_cast<FakeHandle*>(handle)->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t) {
  return "CUBLAS_STATUS_FAKE";
}

cublasStatus_t cublasSgemm_v2_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int64_t m,
                                 int64_t n, int64_t k, const float* alpha, const float* a, int64_t lda, const float* b,
                                 int64_t ldb, const float* beta, float* c, int64_t ldc) {
  return submit<float, float, float>(
      handle, {transa != CUBLAS_OP_N, transb != CUBLAS_OP_N, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc});
}

cublasStatus_t cublasDgemm_v2_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int64_t m,
                                 int64_t n, int64_t k, const double* alpha, const double* a, int64_t lda,
                                 const double* b, int64_t ldb, const double* beta, double* c, int64_t ldc) {
  return submit<double, double, double>(
      handle, {transa != CUBLAS_OP_N, transb != CUBLAS_OP_N, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc});
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int64_t m,
                               int64_t n, int64_t k, const void* alpha, const void* a, cudaDataType atype, int64_t lda,
                               const void* b, cudaDataType btype, int64_t ldb, const void* beta, void* c,
                               cudaDataType ctype, int64_t ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
  auto* fake = reinterpret_cast<FakeHandle*>(handle);
  if (fake->math_mode != CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)
    fake::misuse("a product of 16-bit elements that may round its sums before they are complete");
  if (compute != CUBLAS_COMPUTE_32F || (atype != CUDA_R_16F && atype != CUDA_R_16BF) || atype != btype
      || (ctype != atype && ctype != CUDA_R_32F)) {
    fake->used = false;
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const auto submit_as = [&](auto element) {
    using In = decltype(element);
    return submit_16_bit<In>(handle, ctype,
                             {transa != CUBLAS_OP_N, transb != CUBLAS_OP_N, m, n, k, *static_cast<const float*>(alpha),
                              static_cast<const In*>(a), lda, static_cast<const In*>(b), ldb,
                              *static_cast<const float*>(beta), static_cast<In*>(c), ldc});
  };
  return atype == CUDA_R_16F ? submit_as(Float16{}) : submit_as(BFloat16{});
}
}
