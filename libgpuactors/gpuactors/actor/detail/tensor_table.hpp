// The shared tensors of one process, by number: what its own code and other processes find there.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/region.hpp>
#include <gpuactors/device/context.hpp>
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

class TensorTable;

/// Which tensor it is, of all processes: the store that it was put into, and its number there.
using TensorName = std::pair<std::uint64_t, std::uint64_t>;

/// The work that makes a tensor, while it was still queued when the tensor was put. Any thread.
class Coming {
public:
  explicit Coming(Mark mark) : mark_(std::move(mark)) {
    // nop
  }

  /// The point behind it; empty once it is done.
  [[nodiscard]] Mark mark() const;

  /// It is done, as well as that went. Once; does not block.
  void set(Result<void> outcome);

  /// Waits until it is done. @returns its error.
  [[nodiscard]] Result<void> wait() const;

private:
  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
  // Guarded by `mutex_`.
  Mark mark_;
  std::optional<Result<void>> outcome_;
};

/// A shared tensor: on a device of this process, or in its host memory. Any thread; immutable once it is in a table,
/// except for what `mutex` guards.
struct TensorEntry {
  std::weak_ptr<TensorTable> table;
  std::uint64_t id = 0;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
  /// Where it lies if that is a device; null for host memory.
  std::shared_ptr<Device> device;
  Tensor tensor;
  /// Null: it was there when it was put.
  std::shared_ptr<Coming> coming;
  /// What it is called where it came from, if it was fetched.
  TensorName origin;
  std::mutex mutex;
  /// Its bytes in host memory; for a tensor on a device, once somebody asked for them. Guarded by `mutex`.
  SharedRegion region;

  ~TensorEntry();

  /// The tensor on its device, which stays while the result lives. Waits until it is there.
  /// @returns `unsupported` when it lies in host memory, `actor_died` when the owner has ended, the error of the work
  ///          that makes it.
  [[nodiscard]] Result<Tensor> view() const;

  /// Likewise, for work of `stream`, which is on its device: on CUDA that work waits, not the caller. The result may go
  /// before the work is done.
  [[nodiscard]] Result<Tensor> view_on(Stream& stream) const;

  /// The bytes in host memory, brought there if need be.
  /// @returns `actor_died` when the owner has ended, `out_of_memory`.
  [[nodiscard]] Result<SharedRegion> host_bytes();

  /// Copies the bytes to `target`. @returns `actor_died` when the owner has ended.
  [[nodiscard]] Result<void> read(void* target);
};

/// Bytes of a shared tensor, which may have none: dimensions of 0 are fine. Pure.
/// @returns `invalid_argument` saying what is wrong with its type or shape.
[[nodiscard]] Result<std::size_t> shared_bytes(DType dtype, const std::vector<std::int64_t>& shape);

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

  [[nodiscard]] std::size_t size() const;

  // -- for other processes ---------------------------------------------------------------------

  Result<SharedRegion> find(std::uint64_t id) override;
  void taken(std::uint64_t id, std::uint64_t hand_over) override;

  // -- the thread that ends hand-overs and gives back memory -----------------------------------

  /// Ends hand-overs whose time has come, and memory that was kept for longer than the next large tensor takes to come,
  /// until `close`.
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
  bool stirred_ = false;
  std::condition_variable changed_;
  std::condition_variable fetch_ended_;
};

} // namespace gpuactors::detail
