// The memory of one backend: a pool of its own that does not grow much beyond its limit.
#pragma once

#include <gpuactors/device/cuda/primary.hpp>

namespace gpuactors::cuda {

/// What an allocation is rounded up to, and so what a quota counts.
inline constexpr std::size_t block_bytes = 512;

/// What a pool takes from the device at a time, and so what its maximum is rounded up to.
inline constexpr std::size_t chunk_bytes = std::size_t{32} << 20;

[[nodiscard]] constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

/// A memory pool on one device. `free` any thread; the rest the thread of its backend. The context is current.
class MemoryPool {
public:
  explicit MemoryPool(std::shared_ptr<Primary> primary) : primary_(std::move(primary)) {
    // nop
  }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool() = default;

  /// Creates the pool with `limit_bytes`, rounded up to whole chunks, and one chunk more as its maximum: its pieces do
  /// not always fit together, and the limit itself is the quota's to hold.
  Result<void> open(std::uint64_t limit_bytes);
  Result<void*> allocate(std::size_t bytes, CUstream stream);

  /// How much of what is freed stays for the next who asks; the rest goes back to the device, at once or when a stream
  /// is next waited for. With the whole limit, a chunk stays also if the limit is less. Any thread.
  void keep(std::uint64_t bytes) noexcept;

  /// Gives back to the device what is not in use. Any thread.
  void trim() noexcept;

  void free(void* pointer, CUstream stream) noexcept;
  /// Gives the memory back to the device; what is still allocated follows when it is freed.
  void close() noexcept;

private:
  Result<void> set(CUmemPool_attribute attribute, std::uint64_t value);
  Result<void> set_flag(CUmemPool_attribute attribute, int value);

  std::shared_ptr<Primary> primary_;
  CUmemoryPool pool_ = nullptr;
  std::uint64_t limit_bytes_ = 0;
};

} // namespace gpuactors::cuda
