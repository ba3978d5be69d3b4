// TaskDispatcher: sends tasks to leases, as `TaskCore` decides, and tells it what comes of them. Internal to the
// cluster layer.
#pragma once

#include <gpuactors/cluster/core/task_core.hpp>
#include <gpuactors/cluster/detail/broker_link.hpp>
#include <gpuactors/cluster/detail/worker_links.hpp>
#include <gpuactors/cluster/pending.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpuactors::detail {

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
  void cancel(PendingTask& task, const Error& reason, Cancel how = Cancel::ask) {
    end(task, reason, how, Which::any);
  }

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

  /// Which tasks are withdrawn.
  enum class Which : std::uint8_t { any, waiting };

  void end(PendingTask& task, const Error& reason, Cancel how, Which which);

  using Orders = TaskCore::Orders;
  using ShapePtr = TaskCore::ShapePtr;

  /// Orders, and what it takes to do them without the lock.
  struct Outbox {
    struct Run {
      std::shared_ptr<PendingTask> task;
      caf::strong_actor_ptr runner;
      RequestPort::Ticket ticket;
    };
    Orders orders;
    Few<Run> runs;
    std::vector<std::pair<caf::strong_actor_ptr, v1::CancelCall>> recalls;
  };

  /// Calls `decide` with the lock, for the core's orders, and carries these out without it.
  template <class Decide>
  void carry_out(Decide&& decide);
  /// With the lock: gives tasks their entries in the port, and forgets who ran the tasks of leases that end.
  void admit(Outbox& outbox);
  void admit(Orders::Run run, Outbox& outbox);
  void flush(Outbox& outbox);
  /// From here on, the tasks of `outbox` may be recalled.
  void mark_sent(const Outbox& outbox);
  void acquire(const Orders::Acquire& wanted);
  void withdraw_request(std::uint64_t request);
  void release(TaskCore::LeaseKey lease);

  void answered(PendingTask& task, bool runner_suspect);
  /// Queues a task that `error` ended again, if it has retries left. @returns whether it does.
  bool retry(const std::shared_ptr<PendingTask>& task, const Error& error);
  void placed(const ShapePtr& shape, std::uint64_t request, const v1::Granted& granted, HolderHandles told);
  void granted(const ShapePtr& shape, std::uint64_t request, const TaskCore::Grant& grant, HolderHandles handles);
  void refused(const ShapePtr& shape, std::uint64_t request, const Error& error);
  /// A lease had ended before it could be used: the tasks stay queued, and another lease is requested after a pause.
  /// @returns false when that has happened too often.
  bool ask_again(const ShapePtr& shape, std::uint64_t request);
  void runner_down(LeaseId lease);
  void sweep(TimePoint due);
  void schedule_sweep(TimePoint when);

  /// The places of `PendingTask::timers_`.
  enum class Timer : std::uint8_t { deadline, queue };

  void start_timer(const std::shared_ptr<PendingTask>& task, Timer timer, Duration wait, Error error);
  void stop_timers(PendingTask& task);

  RequestPort& port_;
  std::shared_ptr<BrokerLink> broker_;
  std::shared_ptr<WorkerLinks> workers_;
  const std::uint64_t client_;
  mutable std::mutex mutex_;
  // Guarded by the mutex: what is decided, and for each lease that the core holds, who runs its tasks.
  TaskCore core_;
  std::unordered_map<LeaseId, HolderHandles> holders_;
};

} // namespace gpuactors::detail
