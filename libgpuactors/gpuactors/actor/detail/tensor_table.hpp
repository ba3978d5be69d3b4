// The shared tensors of one process, by number, for its own code and for other processes.
#pragma once

#include <gpuactors/actor/detail/tensor_entry.hpp>
#include <gpuactors/actor/detail/tensor_lines.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/region.hpp>
#include <gpuactors/device/context.hpp>
#include <gpuactors/wire/sockets.hpp>
#include <gpuactors/wire/transport.hpp>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::detail {

/// The table of shared tensors. An entry lives while a handle or an open hand-over refers to it. Any thread.
class TensorTable : public BulkSource, public std::enable_shared_from_this<TensorTable> {
public:
  /// @param readers which processes read the host memory of tensors.
  explicit TensorTable(RegionReaders readers);

  /// Returns a random number that identifies this table among all processes; process ids may coincide.
  [[nodiscard]] std::uint64_t identity() const noexcept {
    return identity_;
  }

  [[nodiscard]] const std::shared_ptr<RegionPool>& pool() const noexcept {
    return pool_;
  }

  /// Returns the address at which other processes fetch these tensors; empty if they cannot.
  [[nodiscard]] std::string address() const;
  void set_address(std::string address);

  /// Returns host memory to fill with a tensor's bytes; `copy` fills it from `source`.
  [[nodiscard]] Result<RegionDraft> make(std::size_t bytes) const;
  [[nodiscard]] Result<SharedRegion> copy(const void* source, std::size_t bytes) const;

  /// Creates the signal that wakes `keep_time`; call it first. @returns `unavailable` if no descriptor is left.
  Result<void> start();

  /// Adds `entry` under a number of its own.
  std::shared_ptr<TensorEntry> add(std::shared_ptr<TensorEntry> entry);

  /// Returns the entry `id`, and ends the hand-over unless `hand_over` is 0. @returns null if nobody keeps the entry
  /// any more.
  std::shared_ptr<TensorEntry> take(std::uint64_t id, std::uint64_t hand_over);

  /// Keeps the entry until it is taken, for at most `keep`. @returns the number of the hand-over; 0 after `close`.
  std::uint64_t hand_over(std::shared_ptr<TensorEntry> entry, Duration keep);

  /// Returns the tensor that was fetched under this name if it is still held here. If null, the caller must fetch it
  /// and then call `arrived`, with null after a failure; other callers for this name wait until then.
  /// @returns `deadline_exceeded` if it has waited until then.
  Result<std::shared_ptr<TensorEntry>> begin_fetch(const TensorName& name, TimePoint deadline);
  void arrived(const TensorName& name, const std::shared_ptr<TensorEntry>& entry);

  /// Records that `entry`, which is in the table, is borrowed over `line`: the tensor is lost when the line ends.
  void borrow(const std::shared_ptr<TensorEntry>& entry, std::shared_ptr<Descriptor> line);

  [[nodiscard]] std::size_t size() const;

  // -- for other processes ---------------------------------------------------------------------

  Result<SharedRegion> find(std::uint64_t id) override;
  Result<DevicePass> find_on_device(std::uint64_t id) override;
  void taken(std::uint64_t id, std::uint64_t hand_over) override;

  // -- the thread that ends hand-overs and gives back memory -----------------------------------

  /// Runs the keeper thread until `close`: ends hand-overs whose time is up and lines whose other end has closed, and
  /// frees spare memory that no tensor has used for `limits::region_spare_time`.
  void keep_time();
  /// Ends all hand-overs and stops `keep_time`. There are no hand-overs afterwards.
  void close();

private:
  friend struct TensorEntry;

  struct HandOver {
    std::shared_ptr<TensorEntry> entry;
    TimePoint until;
  };
  struct Fetched {
    std::weak_ptr<TensorEntry> entry;
    bool coming = false;
  };

  void forget(const TensorEntry& entry);
  void recall(std::uint64_t id);
  /// Handles ended lines: closes lost memory and releases lent entries. The mutex must not be held.
  static void settle(EndedLines& lines);
  /// Moves hand-overs whose time is up to `ended`. @returns when the next hand-over ends.
  TimePoint end_hand_overs(TimePoint now, std::vector<std::shared_ptr<TensorEntry>>& ended);
  /// Wakes the keeper thread.
  void stir();

  const std::uint64_t identity_;
  const RegionReaders readers_;
  const std::shared_ptr<RegionPool> pool_ = RegionPool::create();
  mutable std::mutex mutex_;
  // Guarded by `mutex_`. No entry may be destroyed while `mutex_` is held: its destructor locks it.
  std::string address_;
  bool closed_ = false;
  std::map<std::uint64_t, std::weak_ptr<TensorEntry>> entries_;
  std::map<std::uint64_t, HandOver> open_;
  std::map<TensorName, Fetched> fetched_;
  TensorLines lines_;
  /// When the keeper next looks for hand-overs whose time is up, at the latest.
  TimePoint next_end_ = never;
  /// Wakes the keeper thread; set once, by `start`.
  std::optional<transport::Signal> stirred_;
  std::condition_variable fetch_ended_;
};

} // namespace gpuactors::detail
