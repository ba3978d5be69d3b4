// Kernels that programs bring as source: compiled for a chip, loaded into the driver.
#pragma once

#include <gpuactors/device/cuda/check.hpp>
#include <gpuactors/device/cuda/code_cache.hpp>

#include <map>
#include <mutex>
#include <string>

namespace gpuactors::cuda {

/// One object a process. What is loaded stays until the process ends. Any thread.
class RuntimeKernels {
public:
  explicit RuntimeKernels(const Driver& driver) : driver_(driver), cache_(CodeCache::default_folder()) {
    // nop
  }

  /// @param capability of the chip, 90 for 9.0.
  Result<RuntimeKernel> find(const KernelSource& source, int capability, int ordinal);

private:
  const Driver& driver_;
  CodeCache cache_;
  std::mutex mutex_;
  /// By the code itself, and the name in it.
  std::map<std::string, CUkernel> loaded_;
};

} // namespace gpuactors::cuda
