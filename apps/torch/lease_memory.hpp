// The memory that libtorch takes on the CPU, counted by the quota of the lease that it is taken for.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/quota.hpp>

#include <memory>
#include <optional>

namespace torchscript {

/// Has libtorch take the CPU memory of tensors from a lease, as long as a `Use` of it lives on the calling thread.
///
/// libtorch has one allocator for a whole process. Ours, in its place from when the plugin is loaded, looks for a `Use`
/// on the calling thread: with one it reserves in the quota before it allocates, without one it only allocates. Each
/// block keeps the quota it is counted by and the memory behind it, so it may be freed on any thread, and after the
/// actor and its lease have ended.
///
/// What is not counted: memory that libtorch takes otherwise (oneDNN's and BLAS's buffers, code, its own small
/// objects), and tensors made on its other threads (inside a parallel loop, or by `torch.jit.fork`).
class LeaseMemory {
public:
  explicit LeaseMemory(std::shared_ptr<gpuactors::Quota> quota) : quota_(std::move(quota)) {
    // nop
  }

  LeaseMemory(const LeaseMemory&) = delete;
  LeaseMemory& operator=(const LeaseMemory&) = delete;

  /// Counts what the calling thread allocates while it lives; destroyed on that thread. The innermost counts.
  class Use {
  public:
    /// Forgets what was refused before.
    explicit Use(LeaseMemory& memory) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

  private:
    LeaseMemory* before_;
  };

  /// Returns whether libtorch's allocator is ours.
  /// @returns `unsupported` if another library has replaced it since, so that nothing would be counted.
  static gpuactors::Result<void> check_installed();

  /// Returns why the last allocation under the last `Use` failed, if one did: `out_of_memory`. libtorch itself keeps
  /// no kind of an error that passes through its interpreter.
  [[nodiscard]] const std::optional<gpuactors::Error>& refused() const noexcept {
    return refused_;
  }

private:
  friend class LeaseAllocator;

  std::shared_ptr<gpuactors::Quota> quota_;
  std::optional<gpuactors::Error> refused_;
};

} // namespace torchscript
