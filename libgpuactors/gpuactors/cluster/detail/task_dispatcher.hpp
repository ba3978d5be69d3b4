// TaskDispatcher: assigns tasks to leases. Tasks of one shape share leases, so that not each of them costs a round trip
// to the broker; a lease that others wait for is given back after the running task. Short tasks are sent ahead to a
// lease in another process, so that round trips do not bound their rate. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/detail/broker_link.hpp>
#include <gpuactors/cluster/detail/worker_links.hpp>
#include <gpuactors/cluster/pending.hpp>

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace gpuactors::detail {

/// The resource request of tasks; tasks with an equal `key` share leases.
struct TaskShape {
  v1::ResourceRequest request;
  std::string key;
  /// How many tasks a lease runs before it is given back; 0: no limit.
  int max_calls = 0;
};

/// Any thread may submit. Answers are handled on the thread that delivers them, so that the next task is in the
/// runner's mailbox before the runner would sleep. One lock, held for a few instructions; nothing is sent under it.
class TaskDispatcher : public std::enable_shared_from_this<TaskDispatcher> {
public:
  /// @param client the id by which the broker knows this client.
  /// @param workers null if all tasks run in this process.
  TaskDispatcher(RequestPort& port, std::shared_ptr<BrokerLink> broker, std::shared_ptr<WorkerLinks> workers,
                 std::uint64_t client);

  /// Queues `task`; its result comes through `finish`. Both durations count from now.
  void submit(const std::shared_ptr<PendingTask>& task, std::shared_ptr<const TaskShape> wanted,
              std::optional<Duration> queue_timeout, std::optional<Duration> deadline);

  /// Withdraws a task: a waiting task does not start any more, a running task is asked to stop.
  void cancel(PendingTask& task, const Error& reason, Cancel how = Cancel::ask);

  /// Allows a running task's stream `items` more items.
  void credit(const PendingTask& task, std::uint32_t items);

  /// A worker reports that a task which was recalled has not begun there, and will not.
  void taken_back(CallId call, LeaseId lease);

  /// The broker reports that others wait for this lease.
  void reclaim(LeaseId lease);

  /// The leases that this client holds.
  [[nodiscard]] std::vector<LeaseId> leases() const;

  /// The cluster is being closed: forgets all leases.
  void close();

private:
  friend class PendingTask;
  class LeaseReply;

  struct Shape;

  /// One lease for tasks, held by this client.
  struct Slot {
    v1::Lease lease;
    caf::strong_actor_ptr runner;
    caf::strong_actor_ptr control;
    std::shared_ptr<Shape> shape;
    /// Unanswered tasks that were sent to the lease, in order.
    std::vector<std::shared_ptr<PendingTask>> under_way;
    /// When the first of them may have begun to run.
    TimePoint since = never;
    /// How many tasks were given to the lease.
    int calls = 0;
    TimePoint idle_since = never;
    /// Others wait for the lease: it is given back after the running task.
    bool reclaimed = false;
  };

  /// Tasks and leases of one shape: the same resources, place and priority.
  struct Shape {
    std::string key;
    v1::ResourceRequest request;
    std::size_t most_leases = std::numeric_limits<std::size_t>::max();
    int max_calls = 0;
    std::deque<std::shared_ptr<PendingTask>> waiting;
    /// How many tasks in `waiting` were withdrawn; `compact` removes them.
    std::size_t withdrawn = 0;

    [[nodiscard]] std::size_t wanting() const noexcept {
      return waiting.size() - withdrawn;
    }

    std::vector<LeaseId> idle;
    std::size_t leases = 0;
    /// Running mean of the duration of a task; starts long, so that only tasks known to be short are sent ahead.
    Duration pace = std::chrono::milliseconds{10};
    /// Requests for leases that the broker has not answered.
    std::vector<std::uint64_t> requested;
    /// How many leases in a row had ended before they could be used, and whether the pause after that is still on.
    int lost = 0;
    bool pausing = false;
  };

  /// Messages to send once the lock is released.
  struct Outbox {
    struct Run {
      std::shared_ptr<PendingTask> task;
      caf::strong_actor_ptr runner;
      RequestPort::Ticket ticket;
    };
    struct Acquire {
      std::shared_ptr<Shape> shape;
      std::uint64_t request;
    };
    std::optional<Run> first_run;
    std::vector<Run> runs;
    std::vector<Acquire> acquires;
    std::vector<std::uint64_t> withdrawals;
    std::vector<v1::Lease> releases;
    std::vector<std::pair<std::shared_ptr<PendingTask>, Error>> failures;
    std::vector<std::pair<caf::strong_actor_ptr, v1::CancelCall>> recalls;
    bool start_sweep = false;

    void run(Run run);
  };

  /// The id of a task that is under way. It is not in `PendingTask::call`, which threads that send the task copy
  /// without the lock. The mutex is held.
  [[nodiscard]] CallId id_of(const PendingTask& task) const noexcept {
    return port_.call_id(task.ticket_);
  }
  void answered(PendingTask& task, bool runner_suspect);
  /// Queues a task that `error` ended again, if it has retries left. @returns whether it does.
  bool retry(const std::shared_ptr<PendingTask>& task, const Error& error);
  void placed(const std::shared_ptr<Shape>& shape, std::uint64_t request, const v1::Granted& granted, Place place);
  void granted(const std::shared_ptr<Shape>& shape, std::uint64_t request, const v1::Lease& lease,
               caf::strong_actor_ptr runner, caf::strong_actor_ptr control);
  void release(const v1::Lease& lease);
  void refused(const std::shared_ptr<Shape>& shape, std::uint64_t request, const Error& error);
  /// A lease had ended before it could be used: the tasks stay queued, and another lease is requested after a pause.
  /// @returns false when that has happened too often.
  bool ask_again(const std::shared_ptr<Shape>& shape, std::uint64_t request);
  void runner_down(LeaseId lease);
  void sweep();

  const std::shared_ptr<Shape>& shape_of(const TaskShape& wanted);
  /// Queues a task unless it was withdrawn; `front` is for a task that has waited its turn before.
  static void enqueue(Shape& shape, const std::shared_ptr<PendingTask>& task, bool front);
  static std::shared_ptr<PendingTask> pop_waiting(Shape& shape);
  /// Removes withdrawn tasks from the queue once there are many.
  static void compact(Shape& shape);
  void use(Slot& slot, Outbox& outbox);
  [[nodiscard]] std::size_t most_under_way(const Slot& slot) const;
  void recall_waiting(Slot& slot, Outbox& outbox) const;
  void give_back(LeaseId lease, Outbox& outbox);
  void balance(const std::shared_ptr<Shape>& shape, Outbox& outbox);
  void drop_if_unused(const Shape& shape);
  void flush(Outbox& outbox);
  /// The request is sent now. @returns whether it was withdrawn before.
  bool withdrawn_since_made(std::uint64_t request);
  /// From here on, the tasks of `outbox` may be recalled.
  void mark_sent(const Outbox& outbox);
  void schedule_sweep();
  /// The places of `PendingTask::timers_`.
  enum class Timer : std::uint8_t { deadline, queue };

  void start_timer(const std::shared_ptr<PendingTask>& task, Timer timer, Duration wait, Error error);
  void stop_timers(PendingTask& task);

  RequestPort& port_;
  std::shared_ptr<BrokerLink> broker_;
  std::shared_ptr<WorkerLinks> workers_;
  const std::uint64_t client_;
  /// Of work in this process that requests no resources.
  const std::size_t most_leases_here_;
  mutable std::mutex mutex_;
  // By `TaskShape::key`; a shape is removed with its last task, lease and request.
  std::unordered_map<std::string, std::shared_ptr<Shape>> shapes_;
  std::unordered_map<LeaseId, Slot> slots_;
  // Leases that were granted, and whose holders are being looked up.
  std::set<LeaseId> looked_up_;
  // Leases that were reclaimed after the grant, but before their holder was found.
  std::set<LeaseId> early_reclaims_;
  std::uint64_t last_request_ = 0;
  // Requests that are in the outbox of a thread, and whether they were withdrawn since.
  std::map<std::uint64_t, bool> unsent_;
  bool sweeping_ = false;
  bool closed_ = false;
};

} // namespace gpuactors::detail
