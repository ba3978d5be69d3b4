// The shared tensors of one process, by number: what its own code and other processes find there.
#pragma once

#include <gpuactors/actor/detail/tensor_entry.hpp>
#include <gpuactors/actor/detail/tensor_lines.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/region.hpp>
#include <gpuactors/device/context.hpp>
#include <gpuactors/wire/transport.hpp>
#include <gpuactors/wire/transport/sockets.hpp>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::detail {

/// Entries live as long as their handles, and as references that were handed over. Any thread.
class TensorTable : public BulkSource, public std::enable_shared_from_this<TensorTable> {
public:
  /// @param readers of the host memory that is taken for tensors.
  explicit TensorTable(RegionReaders readers);

  /// Tells apart processes whose ids coincide.
  [[nodiscard]] std::uint64_t identity() const noexcept {
    return identity_;
  }

  [[nodiscard]] const std::shared_ptr<RegionPool>& pool() const noexcept {
    return pool_;
  }

  /// Where others get what is here; empty when they cannot.
  [[nodiscard]] std::string address() const;
  void set_address(std::string address);

  /// Memory to fill for a tensor.
  [[nodiscard]] Result<RegionDraft> make(std::size_t bytes) const;
  [[nodiscard]] Result<SharedRegion> copy(const void* source, std::size_t bytes) const;

  /// Before `keep_time`. @returns `unavailable` when there is no descriptor left.
  Result<void> start();

  /// Enters it under the next number.
  std::shared_ptr<TensorEntry> add(std::shared_ptr<TensorEntry> entry);

  /// The entry; a hand-over that is not 0 ends. @returns null when nobody keeps it any more.
  std::shared_ptr<TensorEntry> take(std::uint64_t id, std::uint64_t hand_over);

  /// Keeps the entry for `keep`, until it is taken. @returns the number of the hand-over; 0 once closed.
  std::uint64_t hand_over(std::shared_ptr<TensorEntry> entry, Duration keep);

  /// What was fetched under this name and is still held here. If nothing is, null: the caller fetches it, and says so
  /// with `arrived` in any case; others who ask for it wait meanwhile.
  std::shared_ptr<TensorEntry> begin_fetch(const TensorName& name);
  void arrived(const TensorName& name, const std::shared_ptr<TensorEntry>& entry);

  /// `entry`, which is in the table, is borrowed over `line`: it is lost when that ends.
  void borrow(const std::shared_ptr<TensorEntry>& entry, std::shared_ptr<Descriptor> line);

  [[nodiscard]] std::size_t size() const;

  // -- for other processes ---------------------------------------------------------------------

  Result<SharedRegion> find(std::uint64_t id) override;
  Result<DevicePass> find_on_device(std::uint64_t id) override;
  void taken(std::uint64_t id, std::uint64_t hand_over) override;

  // -- the thread that ends hand-overs and gives back memory -----------------------------------

  /// Ends hand-overs whose time has come, lines whose other end has closed, and memory that was kept for longer than
  /// the next large tensor takes to come, until `close`.
  void keep_time();
  /// Ends all hand-overs; there are no more.
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
  /// Does what is to be done about lines that have ended. The mutex is not held.
  static void settle(EndedLines& lines);
  /// Moves what nobody took in time to `ended`. @returns when the next one ends.
  TimePoint end_hand_overs(TimePoint now, std::vector<std::shared_ptr<TensorEntry>>& ended);
  /// Has the keeper of time look again.
  void stir();

  const std::uint64_t identity_;
  const RegionReaders readers_;
  const std::shared_ptr<RegionPool> pool_ = RegionPool::create();
  mutable std::mutex mutex_;
  // Guarded by `mutex_`. No entry may end under it: its end takes the mutex.
  std::string address_;
  bool closed_ = false;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_hand_over_ = 0;
  std::map<std::uint64_t, std::weak_ptr<TensorEntry>> entries_;
  std::map<std::uint64_t, HandOver> open_;
  std::map<TensorName, Fetched> fetched_;
  TensorLines lines_;
  /// Wakes the keeper; set once, by `start`.
  std::optional<transport::Signal> stirred_;
  std::condition_variable fetch_ended_;
};

} // namespace gpuactors::detail
