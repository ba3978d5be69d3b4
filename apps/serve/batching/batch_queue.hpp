// The queue of one model: which requests may wait, which of them form the next batch, and when each gives up.
#pragma once

#include "batch_times.hpp"
#include "request.hpp"

#include <gpuactors/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace serve::batching {

/// "1.500 ms", as what clients are told says it.
[[nodiscard]] std::string in_milliseconds(gpuactors::Duration duration);

struct QueueLimits {
  /// Rows of a batch, and bytes of it.
  std::uint64_t max_batch = 32;
  std::uint64_t max_batch_bytes = std::numeric_limits<std::uint64_t>::max();
  /// Requests that may wait, and rows of all of them together.
  std::size_t max_requests = 1'024;
  std::uint64_t max_rows = 1U << 20;
  /// Bytes of all of them together.
  std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max();
  /// How long a batch that is not full may wait for more. Zero: it goes as soon as a replica is free.
  gpuactors::Duration max_delay = gpuactors::Duration::zero();
};

/// The replicas that a request may hope for when it comes.
struct Capacity {
  std::size_t replicas = 0;
  /// When the first of them can begin a batch, by the table; now or before if it is idle.
  gpuactors::TimePoint free_at{};
  gpuactors::Share share;
};

/// What became of the requests, in numbers. Each that was admitted is in exactly one of the last six, or still here.
struct QueueCounts {
  std::uint64_t admitted = 0;
  /// Refused for want of room, and because no answer could come in time.
  std::uint64_t refused_full = 0;
  std::uint64_t refused_late = 0;
  /// Of both, those that one more replica would not have refused, had it been idle.
  std::uint64_t refused_busy = 0;

  std::uint64_t answered = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  /// The deadline passed, in the queue or in a batch; or it waited for longer than it may.
  std::uint64_t expired_waiting = 0;
  std::uint64_t expired_running = 0;
  /// Given up before the deadline, when it was clear that no batch would be done by then.
  std::uint64_t dropped = 0;
};

/// Requests from their admission to their answer. Every one leaves it once: by `settle` or `give_up` when its batch is
/// done, by `expire`, by `cancel`, as one of `Next::late`, or by `take_all`.
///
/// The next batch is the head of the queue, in the order of `Place`, as far as it fits `max_batch` and
/// `max_batch_bytes`, and as far as all in it can still be answered in time by the table of batch times. No clock, no
/// thread, no lock: time is an argument, and whoever owns it guards it.
class BatchQueue {
public:
  /// `times` must outlive the queue.
  BatchQueue(QueueLimits limits, const BatchTimes& times)
    : limits_(limits), times_(times), batch_rows_(limits.max_batch) {
    // nop
  }

  /// Lets a request wait.
  /// @returns `queue_full` when there is no room, or when no replica can answer it before its deadline: the sentence
  ///          says which; `invalid_argument` when it has no rows, or more rows or bytes than a batch.
  gpuactors::Result<void> admit(const RequestPtr& request, gpuactors::TimePoint now, const Capacity& capacity);

  struct Next {
    /// They run now; empty when there is nothing to do yet.
    std::vector<RequestPtr> batch;
    std::uint64_t rows = 0;
    /// Cannot be answered in time any more, and are out of the queue.
    std::vector<RequestPtr> late;
    /// When to ask again, if the batch is held back to grow.
    gpuactors::TimePoint ask_again = gpuactors::never;
  };

  /// Whether a request may go to the replica that is asked for; none: all may.
  using Filter = std::function<bool(const Request&)>;

  /// The batch for a replica that can begin it at `start`; without `may_wait` it goes as it is. What may not go there
  /// is passed over.
  Next next(gpuactors::TimePoint start, gpuactors::Share share, bool may_wait = true, const Filter& may_go = {});

  /// The answer to a request of a batch is here. @returns false when it has been answered already (late or cancelled).
  bool settle(Request& request);

  /// The same for an answer that is an error.
  bool give_up(Request& request);

  /// The batch was lost: the request waits again, where it was before, for a replica, but not for company.
  /// @returns false as `settle` does.
  bool put_back(const RequestPtr& request);

  /// The answer to a batch of several requests was too large: batches have half of its rows at most, from now on.
  /// A request that has more goes alone.
  void lower_rows(std::uint64_t rows);

  /// The answer to a request alone was too large: the batches that were halved to find it were not at fault, and may be
  /// as large as before.
  void one_was_large();

  /// A batch of so many rows was answered. After some of more than half of what is allowed, batches may have twice the
  /// rows again.
  void rows_fit(std::uint64_t rows);

  /// Rows of a batch of several requests, at most.
  [[nodiscard]] std::uint64_t batch_rows() const noexcept {
    return batch_rows_;
  }

  /// The first request that waits and may go; null when there is none.
  [[nodiscard]] const Request* first(const Filter& may_go) const;

  /// How many wait that may go.
  [[nodiscard]] std::size_t count(const Filter& may_go) const;

  /// All that are due, waiting or running, or have waited for longer than they may; the answer is an error.
  std::vector<RequestPtr> expire(gpuactors::TimePoint now);

  /// The client has gone. @returns false when it was answered already.
  bool cancel(Request& request);

  /// All that are here, to fail them; they count as failed.
  std::vector<RequestPtr> take_all();

  /// Those that wait, to fail them, but for those that are to stay.
  std::vector<RequestPtr> take_waiting(const Filter& stays);

  /// When `expire` has something to do; `never` without deadlines.
  [[nodiscard]] gpuactors::TimePoint next_due() const;

  [[nodiscard]] std::size_t waiting() const noexcept {
    return waiting_.size();
  }

  /// The request that `next` takes first; null when none waits.
  [[nodiscard]] const Request* head() const noexcept {
    return waiting_.empty() ? nullptr : waiting_.begin()->second.get();
  }

  [[nodiscard]] std::uint64_t waiting_rows() const noexcept {
    return waiting_rows_;
  }

  [[nodiscard]] std::size_t running() const noexcept {
    return running_.size();
  }

  [[nodiscard]] const QueueCounts& counts() const noexcept {
    return counts_;
  }

  [[nodiscard]] const QueueLimits& limits() const noexcept {
    return limits_;
  }

private:
  /// A request that has to be answered, or begun, by a time, in the order of these times.
  using Due = std::pair<gpuactors::TimePoint, Place>;

  [[nodiscard]] gpuactors::TimePoint expected_end(const Request& request, gpuactors::TimePoint now,
                                                  const Capacity& capacity) const;
  gpuactors::Result<void> check_deadline(Request& request, gpuactors::TimePoint now, const Capacity& capacity);
  /// When a request is due, in the state in which it is.
  [[nodiscard]] static gpuactors::TimePoint due_of(const Request& request) noexcept;
  void note_due(const Request& request);
  void forget_due(const Request& request);
  void start_waiting(const RequestPtr& request);
  void stop_waiting(Request& request);
  /// Takes it out; false when it is not here.
  bool remove(Request& request);

  QueueLimits limits_;
  const BatchTimes& times_;
  QueueCounts counts_;
  std::uint64_t last_number_ = 0;
  std::uint64_t refused_idle_ = 0;
  /// What `lower_rows` has left, what there was before as long as no batch fitted since, and how many batches of that
  /// size were answered since it changed.
  std::uint64_t batch_rows_;
  std::optional<std::uint64_t> rows_before_;
  std::uint64_t fitting_ = 0;
  /// After so many batches grow: their answers may have become smaller, and one that is too large costs little among so
  /// many.
  std::uint64_t patience_ = 64;
  bool has_grown_ = false;
  std::map<Place, RequestPtr> waiting_;
  std::map<Place, RequestPtr> running_;
  /// Rows that wait, in all and by priority; bytes in all.
  std::uint64_t waiting_rows_ = 0;
  std::uint64_t waiting_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> rows_by_priority_;
  std::set<Due> dues_;
};

} // namespace serve::batching
