// Keeping pinned memory.
#include <gpuactors/device/cuda/pinned_pool.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace gpuactors::cuda {

namespace {

constexpr std::size_t least_block = std::size_t{64} << 10;
/// Larger ones would waste too much by rounding, and pinning them is a small part of using them.
constexpr std::size_t most_rounded = std::size_t{256} << 20;
/// What stays pinned while nobody needs it.
constexpr std::size_t most_idle = std::size_t{512} << 20;
/// What may wait to be unpinned while more is pinned: who takes blocks faster than the driver lets go of them waits.
constexpr std::size_t most_leaving = std::size_t{512} << 20;

} // namespace

PinnedPool::~PinnedPool() {
  const Current current{*primary_};
  for (const auto& [size, blocks] : idle_)
    for (auto* block : blocks)
      (void)primary_->driver().mem_free_host(block);
}

Result<std::shared_ptr<void>> PinnedPool::take(std::size_t bytes) {
  const auto size = bytes > most_rounded ? bytes : std::bit_ceil(std::max(bytes, least_block));
  void* block = nullptr;
  {
    const std::lock_guard guard{mutex_};
    if (auto found = idle_.find(size); found != idle_.end() && !found->second.empty()) {
      auto& blocks = found->second;
      block = blocks.back();
      blocks.pop_back();
      idle_bytes_ -= size;
    }
  }
  if (block == nullptr) {
    if (leaving_bytes_ > most_leaving)
      closer_.drain();
    auto pinned = pin(size);
    if (!pinned && pinned.error().code() == Errc::out_of_memory) {
      // What was given back may not be free yet.
      closer_.drain();
      pinned = pin(size);
    }
    if (!pinned)
      return fail(pinned.error());
    block = *pinned;
  }
  return std::shared_ptr<void>{block, [pool = shared_from_this(), size](void* done) { pool->give_back(done, size); }};
}

Result<void*> PinnedPool::pin(std::size_t bytes) {
  const Current current{*primary_};
  void* block = nullptr;
  GPUACTORS_TRY(primary_->check(primary_->driver().mem_host_alloc(&block, bytes, CU_MEMHOSTALLOC_PORTABLE),
                                "cuMemHostAlloc", Errc::out_of_memory, fmt::format("asked {} B", bytes)));
  return block;
}

void PinnedPool::give_back(void* block, std::size_t size) noexcept {
  {
    const std::lock_guard guard{mutex_};
    if (size <= most_rounded && idle_bytes_ + size <= most_idle) {
      idle_[size].push_back(block);
      idle_bytes_ += size;
      return;
    }
  }
  leaving_bytes_ += size;
  const auto unpin = [this, size](void* gone) {
    const Current current{*primary_};
    // It fails only when the context is lost, and then the memory goes with the process.
    (void)primary_->driver().mem_free_host(gone);
    leaving_bytes_ -= size;
  };
  closer_.add(std::shared_ptr<void>{block, unpin});
}

} // namespace gpuactors::cuda
