// Pinned host memory, kept for the next who needs some: the driver takes long to pin and to unpin.
#pragma once

#include <gpuactors/device/cuda/closer.hpp>
#include <gpuactors/device/cuda/primary.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace gpuactors::cuda {

/// Blocks of pinned memory in sizes that are powers of two. Any thread.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
public:
  explicit PinnedPool(std::shared_ptr<Primary> primary) : primary_(std::move(primary)) {
    // nop
  }
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
  ~PinnedPool();

  /// A block of at least `bytes`, which comes back when its last holder goes. The pool lives as long.
  Result<std::shared_ptr<void>> take(std::size_t bytes);

private:
  Result<void*> pin(std::size_t bytes);
  void give_back(void* block, std::size_t size) noexcept;

  std::shared_ptr<Primary> primary_;
  std::mutex mutex_;
  /// Blocks that nobody holds, by size.
  std::map<std::size_t, std::vector<void*>> idle_;
  std::size_t idle_bytes_ = 0;
  /// Unpins `leaving_bytes_`, which may wait for the device, where nobody waits for that: a buffer may go on the thread
  /// that tells whose work is done. Not the device's closer, behind which allocations wait.
  std::atomic<std::size_t> leaving_bytes_{0};
  Closer closer_;
};

} // namespace gpuactors::cuda
