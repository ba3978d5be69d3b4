// TaskDispatcher: brings tasks to leases. Tasks of one shape share leases, so that a stream of them costs no trip to
// the broker each; a lease that others wait for is given back after the task that runs. Short tasks are sent ahead to a
// lease in another process, so that the way there and back does not bound their rate. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/detail/broker_link.hpp>
#include <gpuactors/cluster/detail/worker_links.hpp>
#include <gpuactors/cluster/pending.hpp>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace gpuactors::detail {

/// Any thread may submit. Answers are handled on the thread that gives them, so that the next task is in the runner's
/// mailbox before the runner would sleep. One lock, held for a few instructions; nothing is sent while it is held.
class TaskDispatcher : public std::enable_shared_from_this<TaskDispatcher> {
public:
  /// @param client the number by which the broker knows this client.
  /// @param workers null when all run in this process.
  TaskDispatcher(RequestPort& port, std::shared_ptr<BrokerLink> broker, std::shared_ptr<WorkerLinks> workers,
                 std::uint64_t client);

  /// Queues `task`; its result comes through `finish`. The times count from now.
  void submit(const std::shared_ptr<PendingTask>& task, std::shared_ptr<const TaskShape> wanted,
              std::optional<Duration> queue_timeout, std::optional<Duration> deadline);

  /// Withdraws a task: one that waits does not start any more, one that runs is asked to stop.
  void cancel(PendingTask& task, const Error& reason, Cancel how = Cancel::ask);

  /// Allows a running task's stream `items` more items.
  void credit(const PendingTask& task, std::uint32_t items);

  /// A worker's word that a task which was to be taken back has not begun there, and will not.
  void taken_back(CallId call, LeaseId lease);

  /// The broker's word that others wait for this lease.
  void reclaim(LeaseId lease);

  /// The leases that it holds.
  [[nodiscard]] std::vector<LeaseId> leases() const;

  /// The cluster is being closed: lets go of all leases.
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
    /// Tasks that were sent to it and are not answered, in their order.
    std::vector<std::shared_ptr<PendingTask>> under_way;
    /// Since when the first of them may be running.
    TimePoint since = never;
    /// Tasks that were given to it.
    int calls = 0;
    TimePoint idle_since = never;
    /// Others wait for it: give it back after the running task.
    bool reclaimed = false;
  };

  /// Tasks and leases of one shape: the same resources, place and priority.
  struct Shape {
    std::string key;
    v1::ResourceRequest request;
    std::size_t most_leases = 0;
    int max_calls = 0;
    std::deque<std::shared_ptr<PendingTask>> waiting;
    /// Those in `waiting` that were withdrawn, and are taken out now and then.
    std::size_t withdrawn = 0;

    [[nodiscard]] std::size_t wanting() const noexcept {
      return waiting.size() - withdrawn;
    }

    std::vector<LeaseId> idle;
    std::size_t leases = 0;
    /// How long a task takes, a running mean; long until some were short.
    Duration pace = std::chrono::milliseconds{10};
    /// Requests for leases that the broker has not answered.
    std::vector<std::uint64_t> requested;
    /// How often in a row leases had ended before they could be used, and whether the pause after that is not over.
    int lost = 0;
    bool pausing = false;
  };

  /// What is to be sent once the lock is open.
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

  void answered(PendingTask& task, bool runner_suspect);
  /// Queues a task again that `error` ended, if it may be.
  bool retry(const std::shared_ptr<PendingTask>& task, const Error& error);
  void placed(const std::shared_ptr<Shape>& shape, std::uint64_t request, const v1::Granted& granted, Place place);
  void granted(const std::shared_ptr<Shape>& shape, std::uint64_t request, const v1::Lease& lease,
               caf::strong_actor_ptr runner, caf::strong_actor_ptr control);
  void release(const v1::Lease& lease);
  void refused(const std::shared_ptr<Shape>& shape, std::uint64_t request, const Error& error);
  /// After a lease that had ended before it could be used: its tasks stay where they are and another is asked for.
  /// @returns false when that has happened too often.
  bool ask_again(const std::shared_ptr<Shape>& shape, std::uint64_t request);
  void runner_down(LeaseId lease);
  void sweep();

  const std::shared_ptr<Shape>& shape_of(const TaskShape& wanted);
  /// Puts a task that was not withdrawn into the queue; `front` for one that has waited its turn before.
  static void enqueue(Shape& shape, const std::shared_ptr<PendingTask>& task, bool front);
  static std::shared_ptr<PendingTask> pop_waiting(Shape& shape);
  /// Takes those that were withdrawn out of the queue once there are many.
  static void compact(Shape& shape);
  void use(Slot& slot, Outbox& outbox);
  [[nodiscard]] std::size_t most_under_way(const Slot& slot) const;
  static void recall_waiting(Slot& slot, Outbox& outbox);
  void give_back(LeaseId lease, Outbox& outbox);
  void balance(const std::shared_ptr<Shape>& shape, Outbox& outbox);
  void drop_if_unused(const Shape& shape);
  void flush(Outbox& outbox);
  void schedule_sweep();
  RequestPort::Ticket start_timer(const std::shared_ptr<PendingTask>& task, Duration wait, Error error,
                                  bool while_waiting);
  void stop_timers(PendingTask& task);

  RequestPort& port_;
  std::shared_ptr<BrokerLink> broker_;
  std::shared_ptr<WorkerLinks> workers_;
  const std::uint64_t client_;
  mutable std::mutex mutex_;
  // By the serialized request; a shape goes with its last task, lease and request.
  std::unordered_map<std::string, std::shared_ptr<Shape>> shapes_;
  std::unordered_map<LeaseId, Slot> slots_;
  // Others wait for these, which are granted and not found yet.
  std::set<LeaseId> early_reclaims_;
  std::uint64_t last_request_ = 0;
  bool sweeping_ = false;
  bool closed_ = false;
};

} // namespace gpuactors::detail
