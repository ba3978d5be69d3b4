// cuBLAS, loaded at run time: the functions we use.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cublas_v2.h>
#include <cuda.h>

namespace gpuactors::cuda {

/// Our name and cuBLAS's.
#define GPUACTORS_CUBLAS_TABLE(X)                                                                                      \
  X(create, cublasCreate_v2)                                                                                           \
  X(destroy, cublasDestroy_v2)                                                                                         \
  X(set_stream, cublasSetStream_v2)                                                                                    \
  X(set_workspace, cublasSetWorkspace_v2)                                                                              \
  X(set_math_mode, cublasSetMathMode)                                                                                  \
  X(set_sm_count_target, cublasSetSmCountTarget)                                                                       \
  X(get_status_name, cublasGetStatusName)                                                                              \
  X(sgemm, cublasSgemm_v2_64)                                                                                          \
  X(dgemm, cublasDgemm_v2_64)                                                                                          \
  X(gemm_ex, cublasGemmEx_64)

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

} // namespace gpuactors::cuda
