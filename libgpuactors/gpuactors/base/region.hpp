// Blocks of host memory: filled once, then immutable and counted; other processes of the machine can map them.
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

/// Takes back the memory of ended regions. Regions may outlive it.
class RegionHome {
public:
  RegionHome() = default;
  RegionHome(const RegionHome&) = delete;
  RegionHome& operator=(const RegionHome&) = delete;
  virtual ~RegionHome() = default;

  /// Takes back the memory of an ended region. `idle` means that no other process maps it.
  virtual void take_back(RegionMapping mapping, bool idle) = 0;
};

} // namespace detail

/// The descriptors for mapping a region in another process. Both belong to the region and are valid while it lives.
struct RegionDescriptors {
  /// The memory.
  int memory = -1;
  /// Held by every process that maps the region, and closed after the mapping. It tells the owner when no process maps
  /// the region any more, even if one was killed.
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

  /// Returns the address, aligned to at least 256 bytes; null for an empty handle.
  [[nodiscard]] const std::byte* data() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;

  /// Returns whether other processes of this machine can map the region.
  [[nodiscard]] bool is_mappable() const noexcept;

  /// Returns the descriptors for another process.
  /// @returns `unsupported` if the region is not mappable, `unavailable` if no descriptor is left.
  [[nodiscard]] Result<RegionDescriptors> descriptors() const;

private:
  friend class MappedRegions;
  friend class RegionDraft;

  explicit SharedRegion(std::shared_ptr<detail::RegionBlock> block) : block_(std::move(block)) {
    // nop
  }

  std::shared_ptr<detail::RegionBlock> block_;
};

/// A region before it is shared: memory for one writer, initially undefined. Movable.
class RegionDraft {
public:
  [[nodiscard]] std::byte* data() noexcept;
  [[nodiscard]] std::size_t size() const noexcept;

  /// Ends writing: do not write through any pointer to the memory afterwards.
  [[nodiscard]] SharedRegion seal() &&;

private:
  friend class RegionPool;

  explicit RegionDraft(std::shared_ptr<detail::RegionBlock> block) : block_(std::move(block)) {
    // nop
  }

  std::shared_ptr<detail::RegionBlock> block_;
};

/// The readers of a region.
enum class RegionReaders : std::uint8_t {
  /// This process; others get a copy.
  process,
  /// Every process of this user on this machine, by mapping it.
  machine,
};

struct RegionPoolOptions {
  /// Regions below this size are ordinary memory: a descriptor and two system calls would cost more than a copy.
  std::size_t mappable_from = limits::region_mappable_from;
  /// Memory kept for the next regions: new pages cost several times as much as filling them.
  std::size_t warm_bytes = limits::region_warm_bytes;
  /// The limit of mappable regions at once; each holds one descriptor, and three once it was passed on. Further regions
  /// are ordinary memory. 0: an eighth of the process's limit of descriptors.
  std::size_t mappable_most = 0;
};

/// Creates regions, and keeps the memory of some ended ones for reuse. Any thread.
///
/// Memory that other processes may map is in a sealed memfd, which has no name, so nothing is left behind however the
/// processes end. It is reused only when no other process maps it any more.
class RegionPool : public detail::RegionHome, public std::enable_shared_from_this<RegionPool> {
public:
  [[nodiscard]] static std::shared_ptr<RegionPool> create(const RegionPoolOptions& options = {});

  /// Remaining regions keep their memory.
  ~RegionPool() override;

  /// Returns memory for `bytes`; ordinary memory if no mappable memory is available.
  /// @returns `out_of_memory`.
  [[nodiscard]] Result<RegionDraft> make(std::size_t bytes, RegionReaders readers);

  /// Returns a region with a copy of `bytes` from `source`.
  /// @returns `out_of_memory`.
  [[nodiscard]] Result<SharedRegion> copy(const void* source, std::size_t bytes, RegionReaders readers);

  /// Frees the memory that is kept for reuse.
  void trim();

  /// Allows the pool to keep `bytes`, if that is more than `warm_bytes`, until the caller ends it by `end_spare`.
  ///
  /// @param on_spare is called when there is spare memory to end later, on the releasing thread, without any lock of
  ///        the pool.
  void keep_spare(std::size_t bytes, std::function<void()> on_spare);

  /// Frees kept memory above `warm_bytes` that has been idle since `until`, the oldest first.
  /// @returns since when the oldest remaining memory above `warm_bytes` is idle; none if there is none.
  std::optional<TimePoint> end_spare(TimePoint until);

  /// Returns the bytes of memory kept for reuse.
  [[nodiscard]] std::size_t warm_bytes() const;

private:
  explicit RegionPool(const RegionPoolOptions& options);

  void take_back(detail::RegionMapping mapping, bool idle) override;
  /// Takes the best fitting of the kept mappings: a `shared` one or one of anonymous pages. The result is empty if none
  /// fits.
  detail::RegionMapping take_warm(std::size_t bytes, bool shared);
  detail::RegionMapping make_shared(std::size_t bytes);
  /// Moves the oldest kept mapping to `dropped`.
  void drop_oldest(std::vector<detail::RegionMapping>& dropped);

  RegionPoolOptions options_;
  mutable std::mutex mutex_;
  /// Kept mappings, the oldest first.
  std::vector<detail::RegionMapping> warm_;
  std::size_t warm_bytes_ = 0;
  std::size_t most_warm_bytes_ = 0;
  std::size_t mappable_ = 0;
  std::function<void()> on_spare_;
};

/// Regions of other processes, mapped for reading. Any thread.
///
/// When the last handle to a region is destroyed, its owner may reuse the memory for another region. The mapping is
/// kept, so the pages of that region need not be mapped again, which would take as long as a copy.
class MappedRegions : public detail::RegionHome, public std::enable_shared_from_this<MappedRegions> {
public:
  /// @param warm_bytes the limit of bytes kept mapped without readers.
  [[nodiscard]] static std::shared_ptr<MappedRegions> create(std::size_t warm_bytes = limits::region_warm_bytes);

  /// Remaining regions keep their memory.
  ~MappedRegions() override;

  /// Maps `bytes` of a region of the process named `owner`.
  /// @returns `invalid_argument` if the memory is smaller, or others can still change or truncate it; `out_of_memory`.
  [[nodiscard]] Result<SharedRegion> map(detail::Descriptor memory, detail::Descriptor token, std::size_t bytes,
                                         std::uint64_t owner);

  /// Keeps no mappings of this owner, which may have ended, until another of its regions is mapped. Mapped regions stay
  /// valid.
  void drop(std::uint64_t owner);

  /// Returns the bytes kept mapped without readers.
  [[nodiscard]] std::size_t warm_bytes() const;

private:
  explicit MappedRegions(std::size_t warm_bytes);

  void take_back(detail::RegionMapping mapping, bool idle) override;

  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  /// Owners whose mappings are kept.
  std::set<std::uint64_t> owners_;
  /// Kept mappings, the oldest first.
  std::vector<detail::RegionMapping> warm_;
  std::size_t warm_bytes_ = 0;
};

} // namespace gpuactors
