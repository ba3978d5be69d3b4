// TaskCore: which lease runs which task next, and how many leases are asked for. Tasks of one shape share leases, so
// that not each of them costs a round trip to the broker; a lease that others wait for is given back after the running
// task. Short tasks are sent ahead to a lease in another process, so that round trips do not bound their rate. Pure: no
// actor, thread, clock or log. `TaskDispatcher` does what it orders.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/error.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/core/few.hpp>
#include <gpuactors/cluster/core/task_shape.hpp>
#include <gpuactors/cluster/queued_task.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpuactors::detail {

/// Why a task ends whose time in the queue is over.
[[nodiscard]] Error waited_too_long();

/// Calls must not overlap; each brings the orders that follow from it. What orders say may be done by several threads
/// at once, and later than what comes of the next call: the core is told when a task or a request has really left.
class TaskCore {
public:
  using Task = std::shared_ptr<QueuedTask>;

  /// Tasks and leases of one shape. To others, a name for them.
  struct Shape;
  using ShapePtr = std::shared_ptr<Shape>;

  /// A lease as the broker knows it.
  struct LeaseKey {
    LeaseId id;
    std::uint64_t epoch = 0;
  };

  /// A lease that the broker has granted, and for how long it may be idle.
  struct Grant {
    LeaseKey lease;
    Duration linger = limits::lease_linger;
  };

  /// A task in one lease: what recalls, cancellations and credits name.
  struct Attempt {
    LeaseId lease;
    CallId call;
  };

  /// What is to be done, in this order. Whoever calls the core does it when the core may be called again.
  struct Orders {
    struct Run {
      Task task;
      LeaseId lease;
    };
    struct Acquire {
      ShapePtr shape;
      std::uint64_t request;
    };
    struct Failure {
      Task task;
      Error error;
    };

    /// Tasks to send. `begin` gives each its id, under the same lock as the call of the core, and `sent` says that it
    /// has left.
    Few<Run> runs;
    /// Tasks that their worker is asked to give back if they have not begun.
    std::vector<Attempt> recalls;
    std::vector<LeaseKey> releases;
    /// Leases to ask the broker for. When the question has left, `asked` says whether it was withdrawn meanwhile.
    std::vector<Acquire> acquires;
    std::vector<std::uint64_t> withdrawals;
    /// To be repeated if they may be, else to be told their callers.
    std::vector<Failure> failures;
    /// `sweep` is to be called with this time when it has come, for each one that is ordered.
    std::vector<TimePoint> sweeps;
  };

  /// @param remote whether tasks run in other processes, to which they may be sent ahead.
  /// @param most_leases_here so many leases that request no resources, if tasks run in this process.
  TaskCore(bool remote, std::size_t most_leases_here) : remote_(remote), most_leases_here_(most_leases_here) {
    // nop
  }

  // -- tasks --------------------------------------------------------------------------------------

  /// Queues a new task.
  void submit(const Task& task, std::shared_ptr<const TaskShape> wanted, TimePoint now, Orders& orders);

  /// Whether a task that `error` ended may run again; counts that as one of its retries, unless it had not begun.
  /// Unlike all else here, for one thread for each task, also while others call the core.
  /// @param streamed whether its items have gone to its caller.
  [[nodiscard]] static bool use_retry(QueuedTask& task, const Error& error, bool streamed);

  /// The task's time in the queue begins anew. Before its timer for that does.
  static void begin_wait(QueuedTask& task) {
    task.waited_long_ = false;
  }

  /// Queues a task again whose attempt has failed with `error`, before all that were submitted later. If that is no
  /// loss, an idle lease serves it.
  void submit_again(const Task& task, const Error& error, TimePoint now, Orders& orders);

  /// The caller has given it up: it will not start any more. @returns the attempt that may be running.
  std::optional<Attempt> withdraw(QueuedTask& task, Orders& orders);

  /// The attempt that is under way, if one is.
  [[nodiscard]] std::optional<Attempt> attempt_of(const QueuedTask& task) const;

  /// Its time in the queue is over. @returns whether it still waits there; else it may go on.
  [[nodiscard]] static bool wait_is_over(QueuedTask& task) {
    task.waited_long_ = true;
    return task.state_ != QueuedTask::State::under_way;
  }

  /// A task that was ordered to run is called so.
  static void begin(QueuedTask& task, CallId attempt) {
    task.attempt_ = attempt;
  }

  /// A task that was ordered to run cannot be sent, for this reason.
  void not_sent(Task task, const Error& error, TimePoint now, Orders& orders);

  /// This attempt has left, unless the task is at another one by now.
  static void sent(QueuedTask& task, CallId attempt) {
    if (task.attempt_ == attempt)
      task.sent_ = true;
  }

  /// The attempt is over, in whatever way. Before its result is told.
  /// @param runner_suspect whether the runner may be ending, and is to get nothing more.
  void answered(QueuedTask& task, bool runner_suspect, TimePoint now, Orders& orders);

  /// The task that is under way to a lease by this name, if there is one.
  [[nodiscard]] Task under_way(const Attempt& attempt) const;

  /// A worker has given this task back, which had not begun and will not.
  void taken_back(const Task& task, TimePoint now, Orders& orders);

  // -- leases -------------------------------------------------------------------------------------

  /// What to ask the broker for.
  [[nodiscard]] static const v1::ResourceRequest& request_of(const ShapePtr& shape);

  /// A lease was granted, and its holder is being looked up, until `granted` or `lost`.
  void looks_up(LeaseId lease) {
    looked_up_.insert(lease);
  }

  /// What the broker's answer grants. Unlike most else here, for any thread, also while others call the core.
  [[nodiscard]] Grant grant_of(const ShapePtr& shape, const v1::Granted& granted) const;

  /// The broker has answered `request` with a lease, which may be used. @returns whether it is; not once all is closed.
  bool granted(const ShapePtr& shape, std::uint64_t request, const Grant& grant, TimePoint now, Orders& orders);

  /// A lease that was looked up cannot be used.
  void lost(LeaseId lease) {
    looked_up_.erase(lease);
  }

  /// A lease had ended before it could be used, though nothing is wrong with the request. @returns whether to ask again
  /// by `pause_over`, after a pause; false when that has happened too often in a row, and for `refused`.
  [[nodiscard]] bool ended_early(const ShapePtr& shape);
  void pause_over(const ShapePtr& shape, std::uint64_t request, Orders& orders);

  /// The broker has answered `request` with an error.
  /// @param for_all whether every further request would be answered so.
  void refused(const ShapePtr& shape, std::uint64_t request, const Error& error, bool for_all, Orders& orders);

  /// The question for a lease has left for the broker. @returns whether it was withdrawn before, and is to be now.
  [[nodiscard]] bool asked(std::uint64_t request) {
    return unasked_.extract(request).mapped();
  }

  /// The broker says that others wait for this lease.
  void reclaim(LeaseId lease, Orders& orders);

  /// The runner of this lease has ended, or the connection to it.
  void runner_down(LeaseId lease, Orders& orders);

  /// Gives back leases that have been idle for long, and recalls tasks that wait behind a long one.
  /// @param due when that was ordered for.
  void sweep(TimePoint due, TimePoint now, Orders& orders);

  /// The leases that are held, or granted and being looked up.
  [[nodiscard]] std::vector<LeaseId> leases() const;

  /// Forgets all of it. @returns what it kept, for whoever calls it to destroy once the core may be called again.
  [[nodiscard]] std::shared_ptr<void> close();

  /// Whether it keeps nothing: no task waits or is under way, and no lease is held or asked for.
  [[nodiscard]] bool empty() const noexcept {
    return shapes_.empty() && slots_.empty() && looked_up_.empty() && unasked_.empty();
  }

private:
  /// One lease for tasks, held by this client.
  struct Slot {
    LeaseKey lease;
    ShapePtr shape;
    /// Unanswered tasks that were given to the lease, in order.
    std::vector<Task> under_way;
    /// When the first of them may have begun to run.
    TimePoint since = never;
    /// How many tasks were given to the lease.
    int calls = 0;
    TimePoint idle_since = never;
    /// How long it may be idle, about.
    Duration linger = limits::lease_linger;
    /// Others wait for the lease: it is given back after the running task.
    bool reclaimed = false;
  };

  const ShapePtr& shape_of(const std::shared_ptr<const TaskShape>& wanted);
  /// Queues a task unless it was withdrawn, before all that were submitted later.
  static void enqueue(Shape& shape, const Task& task);
  static Task pop_waiting(Shape& shape);
  /// Removes withdrawn tasks from the queue once there are many.
  static void compact(Shape& shape);
  void use_idle(const ShapePtr& shape, TimePoint now, Orders& orders);
  void use(Slot& slot, TimePoint now, Orders& orders);
  static void take(Slot& slot, Task task, TimePoint now, Orders& orders);
  [[nodiscard]] std::size_t most_under_way(const Slot& slot) const;
  static void recall_waiting(Slot& slot, TimePoint now, Orders& orders);
  void give_back(LeaseId lease, Orders& orders);
  /// Orders a sweep for that time, unless there is one before it, which orders the next.
  void need_sweep(TimePoint due, Orders& orders);
  void need_sweep_of_idle(const Slot& slot, Orders& orders);
  void balance(const ShapePtr& shape, Orders& orders);
  void drop_if_unused(const Shape& shape);

  const bool remote_;
  const std::size_t most_leases_here_;
  // By `TaskShape::key`; a shape is removed with its last task, lease and request.
  std::unordered_map<std::string, ShapePtr> shapes_;
  std::unordered_map<LeaseId, Slot> slots_;
  // Leases that were granted, and whose holders are being looked up.
  std::set<LeaseId> looked_up_;
  // Leases that were reclaimed after the grant, but before their holder was found.
  std::set<LeaseId> early_reclaims_;
  std::uint64_t last_task_ = 0;
  std::uint64_t last_request_ = 0;
  // Requests that have not left yet, and whether they were withdrawn since.
  std::map<std::uint64_t, bool> unasked_;
  // Sweeps that are ordered, the next one last.
  std::vector<TimePoint> sweeps_;
  bool closed_ = false;
};

} // namespace gpuactors::detail
