// Blocks of host memory that are filled once, then immutable and counted; other processes of the machine can map them.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace gpuactors {

class RegionPool;

namespace detail {

class Descriptor;
struct RegionMapping;
struct RegionBlock;

/// Gets the memory of regions that ended; outlived by them.
class RegionHome {
public:
  RegionHome() = default;
  RegionHome(const RegionHome&) = delete;
  RegionHome& operator=(const RegionHome&) = delete;
  virtual ~RegionHome() = default;

  /// `idle`: no other process maps it.
  virtual void take_back(RegionMapping mapping, bool idle) = 0;
};

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

  /// Aligned to 256 bytes at least. Null for an empty handle.
  [[nodiscard]] const std::byte* data() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;

  /// Whether other processes of this machine can map it.
  [[nodiscard]] bool is_mappable() const noexcept;

  /// What to hand to another process.
  /// @returns `unsupported` when the region is not mappable, `unavailable` when there is no descriptor left.
  [[nodiscard]] Result<RegionDescriptors> descriptors() const;

private:
  friend class MappedRegions;
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
class RegionPool : public detail::RegionHome, public std::enable_shared_from_this<RegionPool> {
public:
  [[nodiscard]] static std::shared_ptr<RegionPool> create(const RegionPoolOptions& options = {});

  /// Regions that are left keep their memory.
  ~RegionPool() override;

  /// Memory for `bytes`. Ordinary memory when a mappable one cannot be had.
  /// @returns `out_of_memory`.
  [[nodiscard]] Result<RegionDraft> make(std::size_t bytes, RegionReaders readers);

  /// A region with a copy of `bytes` from `source`.
  /// @returns `out_of_memory`.
  [[nodiscard]] Result<SharedRegion> copy(const void* source, std::size_t bytes, RegionReaders readers);

  /// Gives back the memory that is kept for later.
  void trim();

  /// From now on `bytes` may be kept, if that is more than `warm_bytes`, until the caller ends it by `end_spare`.
  ///
  /// @param on_spare is called when there is something to end later, on the thread that let go of it, under no lock of
  ///        the pool.
  void keep_spare(std::size_t bytes, std::function<void()> on_spare);

  /// Gives back what is kept above `warm_bytes` and has been idle since `until`, the oldest first.
  /// @returns since when the oldest of what is still kept above is idle; none if nothing is.
  std::optional<TimePoint> end_spare(TimePoint until);

  /// Bytes of memory that are kept for later.
  [[nodiscard]] std::size_t warm_bytes() const;

private:
  explicit RegionPool(const RegionPoolOptions& options);

  void take_back(detail::RegionMapping mapping, bool idle) override;
  /// Memory of its own, not from the heap, that was kept and fits.
  detail::RegionMapping take_warm(std::size_t bytes, bool shared);
  detail::RegionMapping make_shared(std::size_t bytes);
  /// Moves the oldest of what is kept to `dropped`.
  void drop_oldest(std::vector<detail::RegionMapping>& dropped);

  RegionPoolOptions options_;
  mutable std::mutex mutex_;
  /// The oldest first.
  std::vector<detail::RegionMapping> warm_;
  std::size_t warm_bytes_ = 0;
  std::size_t most_warm_bytes_ = 0;
  std::size_t mappable_ = 0;
  std::function<void()> on_spare_;
};

/// Regions of other processes, mapped to be read. Any thread.
///
/// When the last handle to one goes, its owner may use the memory for another region; the mapping is kept, so that when
/// that one is handed over, its pages need not be mapped once more, which takes as long as to copy them.
class MappedRegions : public detail::RegionHome, public std::enable_shared_from_this<MappedRegions> {
public:
  /// @param warm_bytes how much may be kept mapped that nobody reads.
  [[nodiscard]] static std::shared_ptr<MappedRegions> create(std::size_t warm_bytes = limits::region_warm_bytes);

  /// Regions that are left keep their memory.
  ~MappedRegions() override;

  /// Maps `bytes` of a region of the process that is called `owner`.
  /// @returns `invalid_argument` when the memory is smaller, or can still be changed or cut by others; `out_of_memory`.
  [[nodiscard]] Result<SharedRegion> map(detail::Descriptor memory, detail::Descriptor token, std::size_t bytes,
                                         std::uint64_t owner);

  /// Keeps nothing of this owner any more, until something of it is mapped again: it may have ended, and what is mapped
  /// lives on.
  void drop(std::uint64_t owner);

  /// Bytes that are mapped and that nobody reads.
  [[nodiscard]] std::size_t warm_bytes() const;

private:
  explicit MappedRegions(std::size_t warm_bytes);

  void take_back(detail::RegionMapping mapping, bool idle) override;

  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  /// Those whose memory is kept.
  std::set<std::uint64_t> owners_;
  /// The oldest first.
  std::vector<detail::RegionMapping> warm_;
  std::size_t warm_bytes_ = 0;
};

} // namespace gpuactors
