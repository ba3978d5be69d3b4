// Kernels that programs bring as source: compiled for a chip, loaded into the driver.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/cuda/check.hpp>
#include <gpuactors/device/cuda/closer.hpp>
#include <gpuactors/device/cuda/code_cache.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace gpuactors::cuda {

/// One object a process. Any thread.
///
/// What is loaded stays while somebody holds it; of what nobody holds, the last ones that were asked for.
class RuntimeKernels {
public:
  /// @param most how many kernels stay loaded when nobody holds them.
  explicit RuntimeKernels(const Driver& driver, std::size_t most = limits::loaded_kernels)
    : driver_(driver), most_(most), cache_(CodeCache::default_folder()) {
    // nop
  }

  /// @param capability of the chip, 90 for 9.0.
  Result<RuntimeKernel> find(const KernelSource& source, int capability, int ordinal);

private:
  using Code = std::shared_ptr<const KernelCode>;

  /// By the code itself, and the name in it: the same code may have been made twice.
  struct ByText {
    bool operator()(const Code& one, const Code& other) const {
      return one != other && std::tie(one->entry, one->code) < std::tie(other->entry, other->code);
    }
  };

  struct Entry {
    std::shared_ptr<const RuntimeKernel::Loaded> kernel;
    CUlibrary library = nullptr;
    /// When it was last asked for.
    std::uint64_t turn = 0;
  };

  Result<Entry> load(const KernelSource& source, const KernelCode& code, int ordinal);
  [[nodiscard]] std::optional<std::vector<std::size_t>> arguments_of(CUkernel kernel) const;
  /// What is loaded of `code`, asked for now.
  std::optional<RuntimeKernel> known(const Code& code);
  /// Keeps what was loaded. Of two who have loaded the same at once the first one's stays, and both have that.
  RuntimeKernel keep(Code code, Entry entry);
  /// Forgets what nobody holds and was not asked for for longest, if there is too much. @returns its library, to be
  /// unloaded; null: nothing.
  CUlibrary take_oldest();
  /// Unloads it where nobody waits for that, for the driver may wait for what runs on the device.
  void unload(CUlibrary library);

  const Driver& driver_;
  const std::size_t most_;
  CodeCache cache_;
  /// Guards what follows. Never held while the driver loads or unloads, which may wait for the device.
  std::mutex mutex_;
  std::map<Code, Entry, ByText> loaded_;
  std::uint64_t turn_ = 0;
  /// Of all time.
  std::atomic<std::uint64_t> loads_{0};
  /// What is on its way out.
  std::atomic<std::size_t> unloading_{0};
  Closer closer_;
};

} // namespace gpuactors::cuda
