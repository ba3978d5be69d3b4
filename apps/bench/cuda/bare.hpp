// CUDA and cuBLAS with nothing of ours in between: the driver's and the library's functions, as a program would call
// them, and the work that rows stand beside.
#pragma once

#include <cublas_v2.h>
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuactors::bench {

/// What is called, found when the program runs. An error ends the program with the function's name.
struct BareCuda {
  PFN_cuStreamQuery_v2000 stream_query = nullptr;
  PFN_cuStreamSynchronize_v2000 stream_synchronize = nullptr;
  PFN_cuMemHostAlloc_v2020 mem_host_alloc = nullptr;
  PFN_cuMemFreeHost_v2000 mem_free_host = nullptr;
  PFN_cuMemcpyAsync_v4000 memcpy_async = nullptr;
  PFN_cuLibraryLoadData_v12000 library_load_data = nullptr;
  PFN_cuLibraryGetKernel_v12000 library_get_kernel = nullptr;
  PFN_cuLaunchKernel_v4000 launch_kernel = nullptr;
  decltype(&cublasCreate_v2) blas_create = nullptr;
  decltype(&cublasDestroy_v2) blas_destroy = nullptr;
  decltype(&cublasSetStream_v2) blas_set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) blas_set_workspace = nullptr;
  decltype(&cublasSetMathMode) blas_set_math_mode = nullptr;
  decltype(&cublasSgemm_v2_64) sgemm = nullptr;
  decltype(&cublasGemmEx_64) gemm_ex = nullptr;

  static const BareCuda& get();
};

/// The end of the program with that name unless it is a success.
void check_cuda(CUresult result, const char* function);
void check_cublas(cublasStatus_t status, const char* function);

// Each with a context current, whose stream is given; nanoseconds of one.

/// A launch of the kernel that does nothing and the wait for it, `count` times.
double bare_launch_ns(CUstream stream, int count);

/// c = a * b for n x n matrices of float32 or bfloat16 in row-major order, `count` times and then the wait. `workspace`
/// is device memory for cuBLAS. Products of bfloat16 sum in float32, as ours do.
double bare_product_ns(CUstream stream, std::int64_t n, const void* a, const void* b, void* c, cudaDataType type,
                       void* workspace, std::size_t workspace_bytes, int count);

/// Memory that is pinned by the driver, and so goes at full speed.
class BarePinned {
public:
  explicit BarePinned(std::size_t bytes);
  BarePinned(const BarePinned&) = delete;
  BarePinned& operator=(const BarePinned&) = delete;
  ~BarePinned();

  [[nodiscard]] void* data() const noexcept {
    return data_;
  }

  /// A copy of all of it to the device, and the wait.
  [[nodiscard]] double upload_ns(CUstream stream, void* device, int times) const;

private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

/// Device memory for n x n matrices of float32, and for cuBLAS.
struct BareMatrices {
  std::int64_t n = 0;
  float* a = nullptr;
  float* b = nullptr;
  float* c = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

/// Matrices of ones from ordinary memory to `a` and `b`, their product `c`, and that to ordinary memory. With a context
/// current, from its making to its end.
class BareRoundTrip {
public:
  BareRoundTrip(CUstream stream, const BareMatrices& matrices);
  BareRoundTrip(const BareRoundTrip&) = delete;
  BareRoundTrip& operator=(const BareRoundTrip&) = delete;
  ~BareRoundTrip();

  /// Once, with the wait for the result.
  void run();

private:
  CUstream stream_;
  BareMatrices matrices_;
  cublasHandle_t handle_ = nullptr;
  /// A copy into other memory than this the driver waits for by itself, asleep.
  BarePinned staged_;
  std::vector<float> ones_;
  std::vector<float> result_;
};

} // namespace gpuactors::bench
