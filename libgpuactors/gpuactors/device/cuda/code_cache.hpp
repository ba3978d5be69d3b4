// Compiled kernels, kept in memory and on disk.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/device/cuda/compiler.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace gpuactors::cuda {

/// How much a cache keeps. What was not asked for, or written, for longest goes first.
struct CodeCacheBounds {
  /// Bytes in memory, of code and of what it was made from.
  std::size_t bytes = limits::kernel_code_bytes;
  /// In the folder.
  std::size_t files = limits::kernel_files;
};

/// Goes by everything that decides what the code is: source, name, options, architecture, version of the compiler. What
/// includes files, or may, is compiled each time: they may have changed. A file of the cache is taken only if all of
/// that is in it, word for word, and its code is whole. Any thread; several processes may share the folder.
class CodeCache {
public:
  /// @param folder where files are; empty: in memory only. Made when it is first needed, for its owner alone.
  explicit CodeCache(std::filesystem::path folder, CodeCacheBounds bounds = {})
    : folder_(std::move(folder)), bounds_(bounds) {
    // nop
  }

  /// GPUACTORS_KERNEL_CACHE, else gpuactors/kernels in the user's cache folder; empty when there is none.
  static std::filesystem::path default_folder();

  /// The code, from memory, disk, or `compile`, whose errors are not kept.
  Result<std::shared_ptr<const KernelCode>> find(const KernelSource& source, const std::string& architecture,
                                                 const std::string& version,
                                                 const std::function<Result<KernelCode>()>& compile);

private:
  struct Known {
    std::shared_ptr<const KernelCode> code;
    /// When it was last asked for.
    std::uint64_t turn = 0;
  };

  void keep(std::string key, std::shared_ptr<const KernelCode> code);

  const std::filesystem::path folder_;
  const CodeCacheBounds bounds_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;
  std::size_t bytes_ = 0;
  std::uint64_t turn_ = 0;
};

} // namespace gpuactors::cuda
