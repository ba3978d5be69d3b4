// What an error of the CUDA driver means for us. Pure, and without CUDA's headers, so that it is tested everywhere;
// check.cpp proves the numbers against cuda.h where there is a toolkit.
#pragma once

#include <gpuactors/base/error.hpp>

namespace gpuactors::cuda {

/// The code of a failed driver call. Sticky errors, after which nothing of the process' CUDA can be trusted, are
/// `context_lost` whatever was called; what the number does not settle is `otherwise`, which fits the call
/// (`launch_failed`, `copy_failed`, ...).
/// @param number a CUresult other than CUDA_SUCCESS.
[[nodiscard]] constexpr Errc classify_driver_error(int number, Errc otherwise) noexcept {
  switch (number) {
  case 2: // OUT_OF_MEMORY
    return Errc::out_of_memory;

  // The context is corrupt or gone: the process must be replaced.
  case 4:   // DEINITIALIZED
  case 214: // ECC_UNCORRECTABLE
  case 220: // NVLINK_UNCORRECTABLE
  case 226: // CONTAINED
  case 700: // ILLEGAL_ADDRESS
  case 702: // LAUNCH_TIMEOUT
  case 709: // CONTEXT_IS_DESTROYED
  case 710: // ASSERT
  case 714: // HARDWARE_STACK_ERROR
  case 715: // ILLEGAL_INSTRUCTION
  case 716: // MISALIGNED_ADDRESS
  case 717: // INVALID_ADDRESS_SPACE
  case 718: // INVALID_PC
  case 719: // LAUNCH_FAILED
  case 721: // TENSOR_MEMORY_LEAK
  case 806: // MPS_RPC_FAILURE
  case 810: // MPS_CLIENT_TERMINATED
  case 911: // EXTERNAL_DEVICE
  case 999: // UNKNOWN: nobody says that it is harmless
    return Errc::context_lost;

  // There is no such device, or it does not take us.
  case 46:  // DEVICE_UNAVAILABLE
  case 100: // NO_DEVICE
  case 101: // INVALID_DEVICE
  case 102: // DEVICE_NOT_LICENSED
    return Errc::device_lost;

  // Somebody else in the process has broken off a capture.
  case 901: // STREAM_CAPTURE_INVALIDATED
    return Errc::unavailable;

  // The machine or its MPS server cannot serve us now.
  case 802: // SYSTEM_NOT_READY
  case 803: // SYSTEM_DRIVER_MISMATCH: the driver was changed since the machine was started
  case 805: // MPS_CONNECTION_FAILED
  case 807: // MPS_SERVER_NOT_READY
  case 808: // MPS_MAX_CLIENTS_REACHED
  case 809: // MPS_MAX_CONNECTIONS_REACHED
  case 919: // FABRIC_NOT_READY: CUDA 13.5 has it
    return Errc::unavailable;

  // This driver or device cannot do it.
  case 34:  // STUB_LIBRARY
  case 36:  // CALL_REQUIRES_NEWER_DRIVER
  case 209: // NO_BINARY_FOR_GPU
  case 221: // JIT_COMPILER_NOT_FOUND
  case 222: // UNSUPPORTED_PTX_VERSION
  case 223: // JIT_COMPILATION_DISABLED
  case 801: // NOT_SUPPORTED
  case 804: // COMPAT_NOT_SUPPORTED_ON_DEVICE
    return Errc::unsupported;

  default:
    return otherwise;
  }
}

/// The code of a failed cuBLAS call.
/// @param number a cublasStatus_t other than CUBLAS_STATUS_SUCCESS.
[[nodiscard]] constexpr Errc classify_cublas_error(int number) noexcept {
  switch (number) {
  case 3: // ALLOC_FAILED
    return Errc::out_of_memory;
  case 7: // INVALID_VALUE
    return Errc::invalid_argument;
  case 1:  // NOT_INITIALIZED
  case 8:  // ARCH_MISMATCH
  case 15: // NOT_SUPPORTED
  case 16: // LICENSE_ERROR
    return Errc::unsupported;
  default: // MAPPING_ERROR, EXECUTION_FAILED, INTERNAL_ERROR
    return Errc::launch_failed;
  }
}

} // namespace gpuactors::cuda
