// Blocks of host memory that are filled once, then immutable and counted; other processes of the machine can map them.
#pragma once

#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gpuactors {

class RegionPool;

namespace detail {

/// Memory of a region and what keeps it. `memory` is its memfd, if it has one.
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
  std::byte* data = nullptr;
  std::size_t capacity = 0;
  Descriptor memory;
  /// Whether it had a user before: its pages are there.
  bool warm = false;

  RegionMapping() = default;
  RegionMapping(RegionMapping&& other) noexcept;
  RegionMapping& operator=(RegionMapping&& other) noexcept;
  ~RegionMapping();
};

struct RegionBlock;

} // namespace detail

/// What another process needs to map a region. Both belong to the region and are valid while it lives.
struct RegionDescriptors {
  /// The memory.
  int memory = -1;
  /// Held by every process that maps the region, and closed after the mapping: how the owner learns that nobody does
  /// any more, also when one was killed.
  int token = -1;
};

/// A counted handle to an immutable block of memory. Copyable; any thread.
class SharedRegion {
public:
  /// An empty handle; a region of 0 bytes is not empty.
  SharedRegion() = default;

  explicit operator bool() const noexcept {
    return block_ != nullptr;
  }

  /// Aligned to 256 bytes at least.
  [[nodiscard]] const std::byte* data() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;

  /// Whether other processes of this machine can map it.
  [[nodiscard]] bool is_mappable() const noexcept;

  /// What to hand to another process.
  /// @returns `unsupported` when the region is not mappable, `unavailable` when there is no descriptor left.
  [[nodiscard]] Result<RegionDescriptors> descriptors() const;

  /// Maps `bytes` of a region of another process.
  /// @returns `invalid_argument` when the memory is smaller, or can still be changed or cut by others.
  [[nodiscard]] static Result<SharedRegion> map(Descriptor memory, Descriptor token, std::size_t bytes);

private:
  friend class RegionDraft;

  explicit SharedRegion(std::shared_ptr<detail::RegionBlock> block) : block_(std::move(block)) {
    // nop
  }

  std::shared_ptr<detail::RegionBlock> block_;
};

/// A region before it is shared: the memory of one writer. Movable. Its bytes are undefined until they are written.
class RegionDraft {
public:
  [[nodiscard]] std::byte* data() noexcept;
  [[nodiscard]] std::size_t size() const noexcept;

  /// Ends writing. No pointer to the memory may be used to write any more.
  [[nodiscard]] SharedRegion seal() &&;

private:
  friend class RegionPool;

  explicit RegionDraft(std::shared_ptr<detail::RegionBlock> block) : block_(std::move(block)) {
    // nop
  }

  std::shared_ptr<detail::RegionBlock> block_;
};

/// Who is to read a region.
enum class RegionReaders : std::uint8_t {
  /// This process; others get a copy.
  process,
  /// Every process of this user on this machine, by mapping it.
  machine,
};

struct RegionPoolOptions {
  /// Regions below this size are ordinary memory: a descriptor and two system calls would cost more than a copy.
  std::size_t mappable_from = limits::region_mappable_from;
  /// Memory that is kept for the next regions: new pages cost several times what it takes to fill them.
  std::size_t warm_bytes = limits::region_warm_bytes;
  /// Mappable regions at once, each of which holds a descriptor, and three once it was handed out. The next one is
  /// ordinary memory. 0: an eighth of the descriptors that the process may have.
  std::size_t mappable_most = 0;
};

/// Makes regions, and keeps the memory of some that ended for the next ones. Any thread.
///
/// Memory that other processes may map lies in a sealed memfd: it has no name anywhere, so that nothing is left behind
/// however its processes end. It is used anew only when no other process maps it any more.
class RegionPool : public std::enable_shared_from_this<RegionPool> {
public:
  [[nodiscard]] static std::shared_ptr<RegionPool> create(const RegionPoolOptions& options = {});

  /// Regions that are left keep their memory.
  ~RegionPool();

  /// Memory for `bytes`. Ordinary memory when a mappable one cannot be had.
  /// @returns `out_of_memory`.
  [[nodiscard]] Result<RegionDraft> make(std::size_t bytes, RegionReaders readers);

  /// A region with a copy of `bytes` from `source`.
  /// @returns `out_of_memory`.
  [[nodiscard]] Result<SharedRegion> copy(const void* source, std::size_t bytes, RegionReaders readers);

  /// Gives back the memory that is kept for later.
  void trim();

  /// Bytes of memory that are kept for later.
  [[nodiscard]] std::size_t warm_bytes() const;

private:
  friend struct detail::RegionBlock;
  using Mapping = detail::RegionMapping;

  explicit RegionPool(const RegionPoolOptions& options);
  RegionPool(const RegionPool&) = delete;

  /// A kept one of this kind that fits; one of kind `heap` when there is none.
  Mapping take_warm(Mapping::Kind kind, std::size_t bytes);
  Mapping make_shared(std::size_t bytes);
  /// Of a region that ended; `idle` when no other process maps it.
  void take_back(Mapping mapping, bool idle);

  RegionPoolOptions options_;
  mutable std::mutex mutex_;
  /// The oldest first.
  std::vector<Mapping> warm_;
  std::size_t warm_bytes_ = 0;
  std::size_t mappable_ = 0;
};

} // namespace gpuactors
