// The one place where errors of CUDA and cuBLAS become ours.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/cuda/driver.hpp>

#include <string>

namespace gpuactors::cuda {

/// What an error text and its code need to know of a call.
struct CallSite {
  /// Ordinal of the device; -1: none.
  int device = -1;
  /// The code where the error itself does not settle it.
  Errc otherwise = Errc::internal;
  /// What was asked, for example "asked 1048576 B"; may be empty.
  std::string detail = {};
};

/// Success, or an error with a text such as "cuMemAllocFromPoolAsync: CUDA_ERROR_OUT_OF_MEMORY (2) on device 0, asked
/// 1048576 B". Any thread.
Result<void> check(const Driver& driver, CUresult result, const char* api, const CallSite& site);

} // namespace gpuactors::cuda
