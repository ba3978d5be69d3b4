// A client's tasks, its threads, a broker and workers, played around the real TaskCore: what it orders is done step by
// step, by several threads at once, in any order that locks and connections allow.
#pragma once

#include <gpuactors/cluster/core/task_core.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace simulation {

using DispatchCoverage = std::map<std::string, std::size_t>;

struct DispatchOptions {
  /// Whether the tasks run in other processes.
  bool remote = true;
  /// Shapes of tasks; every second one has tasks that take long now and then.
  int shapes = 2;
  int max_calls = 0;
  /// So many leases the broker has at a time.
  std::size_t capacity = 3;
  int tasks = 200;
  /// How often each happens, in a thousand steps.
  int withdrawals = 0;
  int reclaims = 0;
  int deaths = 0;
  int endings = 0;
  int overdue = 0;
  /// Of a hundred times that it might.
  int refusals = 0;
  int lost_leases = 0;
  int full_ports = 0;
  int failures = 0;
};

class Dispatch {
public:
  Dispatch(std::uint64_t seed, const DispatchOptions& options, DispatchCoverage& coverage);
  ~Dispatch();

  /// Lives through all that the options say, until the last task has an end.
  void live();

  /// What has happened that must not.
  [[nodiscard]] const std::vector<std::string>& violations() const noexcept {
    return violations_;
  }

private:
  using TaskCore = gpuactors::detail::TaskCore;
  using Orders = TaskCore::Orders;
  using CallId = gpuactors::CallId;
  using LeaseId = gpuactors::LeaseId;
  struct Job;
  struct Worker;

  /// What a thread has yet to do, in order.
  using Steps = std::deque<std::function<void()>>;

  // What others do, one step of which is chosen at random.
  bool step();
  bool submit_one();
  bool thread_goes_on();
  bool worker_goes_on();
  bool broker_answers();
  bool time_passes();
  void fault();

  // The shell.
  void carry_out(const std::function<void(Orders&)>& decide);
  void admit(Orders& orders, Steps& steps);
  void admit_run(const Orders::Run& run, Orders& orders, Steps& steps);
  void flush(Orders orders, Steps steps);
  void reply(const std::shared_ptr<Job>& job);
  void fail(const std::shared_ptr<Job>& job, const gpuactors::Error& error);
  void end(const std::shared_ptr<Job>& job);
  void check_idle();
  void withdraw(const std::shared_ptr<Job>& job);

  // The other side.
  void deliver(const std::shared_ptr<Job>& job, LeaseId lease, CallId call);
  void recall(const TaskCore::Attempt& attempt);
  void release(TaskCore::LeaseKey lease);
  void ask(const Orders::Acquire& wanted);
  void withdraw_request(std::uint64_t request);
  void grant(std::uint64_t request);
  void found(std::uint64_t request, TaskCore::ShapePtr shape, LeaseId lease);
  void refuse(std::uint64_t request, const gpuactors::Error& error);
  void reclaim(Worker& worker);
  /// It answers what it has not begun, and dies.
  void ends(Worker& worker);
  void fail_attempt(const std::shared_ptr<Job>& job, const gpuactors::Error& error);
  void dies(Worker& worker);
  [[nodiscard]] std::size_t held() const;

  bool chance(int of_a_hundred);
  std::size_t below(std::size_t bound);
  void violated(std::string what);
  void saw(const std::string& what) {
    ++coverage_[what];
  }

  DispatchOptions options_;
  DispatchCoverage& coverage_;
  std::mt19937_64 random_;
  gpuactors::TimePoint now_{std::chrono::hours{1}};
  TaskCore core_;
  std::vector<std::shared_ptr<const gpuactors::detail::TaskShape>> shapes_;
  /// The core's own, by their keys.
  std::map<std::string, std::weak_ptr<TaskCore::Shape>> known_shapes_;
  std::vector<std::shared_ptr<Job>> jobs_;
  std::map<LeaseId, Worker> workers_;
  std::list<Steps> threads_;
  /// Requests that the broker has and has not answered; and which of them were withdrawn.
  std::map<std::uint64_t, TaskCore::ShapePtr> requests_;
  std::set<std::uint64_t> withdrawn_;
  /// Requests that ever came to the broker, and attempts that ever came to a worker.
  std::set<std::uint64_t> asked_;
  std::set<CallId> delivered_;
  std::multimap<gpuactors::TimePoint, std::function<void()>> timers_;
  /// The last task of each shape that was begun at its first attempt.
  std::map<int, int> last_first_;
  std::uint64_t last_lease_ = 0;
  std::uint64_t last_call_ = 0;
  /// Nothing goes wrong any more.
  bool calm_ = false;
  std::vector<std::string> violations_;
};

} // namespace simulation
