// Compiled kernels, kept in memory and on disk.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/cuda/compiler.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace gpuactors::cuda {

/// Goes by everything that decides what the code is: source, name, options, architecture, version of the compiler. A
/// file is taken only if all of that is in it, word for word, and its code is whole. Any thread; several processes may
/// share the folder.
class CodeCache {
public:
  /// @param folder where files are; empty: in memory only. Made when it is first needed, for its owner alone.
  explicit CodeCache(std::filesystem::path folder) : folder_(std::move(folder)) {
    // nop
  }

  /// GPUACTORS_KERNEL_CACHE, else gpuactors/kernels in the user's cache folder; empty when there is none.
  static std::filesystem::path default_folder();

  /// The code, from memory, disk, or `compile`, whose errors are not kept.
  Result<KernelCode> find(const KernelSource& source, const std::string& architecture, const std::string& version,
                          const std::function<Result<KernelCode>()>& compile);

private:
  const std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<std::string, KernelCode> known_;
};

} // namespace gpuactors::cuda
