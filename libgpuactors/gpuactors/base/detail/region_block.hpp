// What a region consists of.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/detail/descriptor.hpp>
#include <gpuactors/base/region.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace gpuactors::detail {

/// Which memfd this is, of all that there are and were: its device, its number there, and when it was made, where the
/// kernel knows that.
struct MemoryKey {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  std::int64_t made_seconds = 0;
  std::uint64_t made_nanoseconds = 0;

  friend bool operator==(const MemoryKey&, const MemoryKey&) = default;
};

/// Gives memory back to where it came from.
struct FreeMemory {
  /// Pages that were mapped; 0 for memory from the heap.
  std::size_t mapped = 0;

  void operator()(std::byte* data) const noexcept;
};

using Memory = std::unique_ptr<std::byte, FreeMemory>;

/// Memory, and what keeps it.
struct RegionMapping {
  enum class Kind : std::uint8_t {
    /// From the heap.
    heap,
    /// Anonymous pages.
    pages,
    /// Pages of a memfd of this process.
    shared,
    /// Pages of another process's memfd, to read.
    foreign,
  };

  Kind kind = Kind::heap;
  Memory data;
  std::size_t capacity = 0;
  /// The memfd of this process.
  Descriptor memory;
  /// Whether it had a user before: its pages are there.
  bool warm = false;
  /// Whether this process's table has them all.
  bool populated = false;
  /// When its last user let go of it.
  TimePoint idle_since{};
  /// Of another process's.
  MemoryKey key;
  std::uint64_t owner = 0;
};

/// Memory from the heap, aligned as regions are. Null when there is none.
[[nodiscard]] Memory allocate(std::size_t bytes);

/// Maps pages of `memory`, or anonymous ones. Null when it cannot be done.
[[nodiscard]] Memory map_pages(std::size_t capacity, int protection, int flags, int memory);

/// What the handles to a region share.
struct RegionBlock {
  // Declared first, so that it is closed after the memory was given back.
  Descriptor held_token;
  RegionMapping mapping;
  std::size_t size = 0;
  std::weak_ptr<RegionHome> home;
  std::mutex mutex;
  // Both ends of the pipe whose writing end is handed out. Guarded by `mutex`.
  Descriptor token_reader;
  Descriptor token_writer;

  ~RegionBlock();

  /// Whether no other process maps it. Only once nobody here can hand it out any more.
  bool is_idle();
};

} // namespace gpuactors::detail
