// Kernels in the driver: each image is loaded once a process, each kernel looked up once.
#pragma once

#include <gpuactors/device/cuda/check.hpp>
#include <gpuactors/device/kernel.hpp>

#include <map>
#include <mutex>
#include <utility>

namespace gpuactors::cuda {

/// Loaded images and their kernels, which belong to no context. Never unloaded before the process ends. Any thread.
class Images {
public:
  explicit Images(const Driver& driver) : driver_(driver) {
    // nop
  }

  /// The driver's handle of `kernel`.
  /// @returns `launch_failed` when it has no code for CUDA or its image does not hold it.
  Result<CUkernel> find(const KernelInfo& kernel, int ordinal);

private:
  Result<CUlibrary> load(const KernelImage& image, const char* kernel, int ordinal);

  const Driver& driver_;
  std::mutex mutex_;
  std::map<const KernelImage*, CUlibrary> libraries_;
  std::map<std::pair<const KernelImage*, const char*>, CUkernel> kernels_;
};

} // namespace gpuactors::cuda
