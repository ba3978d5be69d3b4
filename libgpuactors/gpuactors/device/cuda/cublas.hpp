// cuBLAS, loaded at run time: the functions we use, and one handle of one backend.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/backend.hpp>

#include <cublas_v2.h>
#include <cuda.h>

namespace gpuactors::cuda {

/// Our name and cuBLAS's.
#define GPUACTORS_CUBLAS_TABLE(X)                                                                                      \
  X(create, cublasCreate_v2)                                                                                           \
  X(destroy, cublasDestroy_v2)                                                                                         \
  X(set_stream, cublasSetStream_v2)                                                                                    \
  X(set_workspace, cublasSetWorkspace_v2)                                                                              \
  X(set_sm_count_target, cublasSetSmCountTarget)                                                                       \
  X(get_status_name, cublasGetStatusName)                                                                              \
  X(sgemm, cublasSgemm_v2_64)                                                                                          \
  X(dgemm, cublasDgemm_v2_64)

/// The table. Filled once, then only read: any thread.
struct Cublas {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name cannot be in parentheses
#define GPUACTORS_CUBLAS_MEMBER(name, function) decltype(&(function)) name = nullptr;
  GPUACTORS_CUBLAS_TABLE(GPUACTORS_CUBLAS_MEMBER)
#undef GPUACTORS_CUBLAS_MEMBER
};

/// Loads the library of the CUDA version this was built with.
/// @returns `unsupported` with one line when there is none.
Result<Cublas> load_cublas();

/// Success, or an error with a text such as "cublasSgemm: CUBLAS_STATUS_EXECUTION_FAILED (13) on device 0".
Result<void> check(const Cublas& cublas, cublasStatus_t status, const char* api, int device);

/// One handle. The thread of its backend; its context is current.
class CublasHandle {
public:
  CublasHandle(const Cublas& cublas, int device) : cublas_(cublas), device_(device) {
    // nop
  }
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;
  ~CublasHandle() = default;

  /// @param workspace device memory that the handle uses instead of allocating beside the quota.
  /// @param sms how many SMs its products run on; 0: the whole device.
  Result<void> open(void* workspace, std::size_t workspace_bytes, int sms);

  void close() noexcept;

  [[nodiscard]] bool is_open() const noexcept {
    return handle_ != nullptr;
  }

  Result<void> gemm(const Gemm& product, CUstream stream);

private:
  const Cublas& cublas_;
  int device_;
  cublasHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

} // namespace gpuactors::cuda
