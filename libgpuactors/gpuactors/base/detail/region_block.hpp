// The internal representation of a region: its memory, how that was obtained, and the state shared by its handles.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/region.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace gpuactors::detail {

/// Identifies one memfd among all past and present ones: its device, inode number and, where the kernel reports it,
/// creation time (inode numbers are reused).
struct MemoryKey {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  std::int64_t made_seconds = 0;
  std::uint64_t made_nanoseconds = 0;

  friend bool operator==(const MemoryKey&, const MemoryKey&) = default;
};

/// Deleter of `Memory`: unmaps pages, or frees memory from the heap.
struct FreeMemory {
  /// The number of mapped bytes; 0 for memory from the heap.
  std::size_t mapped = 0;

  void operator()(std::byte* data) const noexcept;
};

using Memory = std::unique_ptr<std::byte, FreeMemory>;

/// The memory of one region and how it was obtained.
struct RegionMapping {
  enum class Kind : std::uint8_t {
    /// Memory from the heap.
    heap,
    /// Anonymous pages.
    pages,
    /// Pages of a memfd of this process.
    shared,
    /// Pages of another process's memfd, mapped read-only.
    foreign,
  };

  Kind kind = Kind::heap;
  Memory data;
  std::size_t capacity = 0;
  /// The memfd, for `shared` only.
  Descriptor memory;
  /// Whether an earlier region used this memory, so its pages are already allocated.
  bool warm = false;
  /// Whether all later mappings of it can only read: from the first region that was sealed on.
  bool sealed = false;
  /// Whether `populate` has run: this process's page table has entries for all pages.
  bool populated = false;
  /// When the last region that used this memory ended.
  TimePoint idle_since{};
  /// For `foreign` only: the memfd, and the number of the process that owns it.
  MemoryKey key;
  std::uint64_t owner = 0;
};

/// Allocates memory from the heap, aligned to 256 bytes. Returns null if there is not enough.
[[nodiscard]] Memory allocate(std::size_t bytes);

/// Maps pages of the descriptor `memory`, or anonymous ones (see `flags`). Returns null, with errno set, on failure.
[[nodiscard]] Memory map_pages(std::size_t capacity, int protection, int flags, int memory);

/// The state shared by all handles to one region.
struct RegionBlock {
  // The token of a `foreign` region. Declared first, so it is closed only after the memory has been unmapped or taken
  // back.
  Descriptor held_token;
  RegionMapping mapping;
  std::size_t size = 0;
  std::weak_ptr<RegionHome> home;
  std::mutex mutex;
  // Both ends of the pipe whose writing end is handed out as the token. Guarded by `mutex`.
  Descriptor token_reader;
  Descriptor token_writer;

  ~RegionBlock();

  /// Returns whether no other process maps the region. Closes the local token, so call this only when no local handle
  /// can hand the region out any more.
  bool is_idle();
};

} // namespace gpuactors::detail
