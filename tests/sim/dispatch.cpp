#include <gpuactors/cluster/core/shape.hpp>

#include <sim/dispatch.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace simulation {

using namespace std::chrono_literals;
using gpuactors::Errc;
using gpuactors::Error;

struct Dispatch::Job : gpuactors::detail::QueuedTask {
  [[nodiscard]] bool finished() const noexcept override {
    return ended;
  }

  int number = 0;
  int shape = 0;
  bool ended = false;
  bool withdrawn = false;
  /// It was queued a second time; and waits so now, before all that were not.
  bool again = false;
  bool waits_again = false;
  bool is_lost = false;
  /// Its time in the queue was over while it was under way.
  bool overdue = false;
  /// The attempt that has not been answered.
  CallId open;
  LeaseId lease;
  gpuactors::Duration takes{};
};

struct Dispatch::Worker {
  struct Entry {
    std::shared_ptr<Job> job;
    CallId call;
    bool begun = false;
    gpuactors::TimePoint done{};
  };

  TaskCore::LeaseKey lease;
  std::deque<Entry> queue;
  bool dead = false;
  bool released = false;
  /// The client has it, and was then told that others wait for it; it has said that it ends.
  bool used = false;
  bool reclaimed = false;
  bool suspect = false;
  int begun = 0;
  /// Attempts without an answer.
  std::size_t open = 0;
};

Dispatch::Dispatch(std::uint64_t seed, const DispatchOptions& options, DispatchCoverage& coverage)
  : options_(options), coverage_(coverage), random_(seed), core_(options.remote, 4) {
  for (int i = 0; i < options.shapes; ++i) {
    auto shape = std::make_shared<gpuactors::detail::TaskShape>();
    shape->key = std::to_string(i);
    shape->request.set_gpu_units(1 + i);
    shape->max_calls = options.max_calls;
    shapes_.push_back(std::move(shape));
  }
}

Dispatch::~Dispatch() = default;

void Dispatch::live() {
  constexpr int most = 200'000;
  int steps = 0;
  const auto all_ended = [&] {
    return jobs_.size() == static_cast<std::size_t>(options_.tasks)
           && std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->ended; });
  };
  while (steps++ < most && !all_ended()) {
    // Faults end when the last task was submitted and has had some time.
    calm_ = steps > 20 * options_.tasks;
    if (!calm_)
      fault();
    step();
  }
  if (!all_ended())
    violated("a task has no end");
  // What is left ends by itself: withdrawn tasks that run, and leases that nobody uses.
  const auto still = [this] {
    return threads_.empty() && timers_.empty() && requests_.empty()
           && std::all_of(workers_.begin(), workers_.end(), [](const auto& each) { return each.second.queue.empty(); });
  };
  while (steps++ < 2 * most && !still())
    step();
  if (!core_.empty())
    violated("the core keeps something of nothing");
  if (held() > 0)
    violated("a lease is held for nothing");
  for (const auto& [id, worker] : workers_)
    if (worker.open != 0)
      violated("an attempt has no answer");
}

bool Dispatch::step() {
  // One that has something to do, by chance.
  std::vector<bool (Dispatch::*)()> parts = {&Dispatch::submit_one, &Dispatch::thread_goes_on,
                                             &Dispatch::worker_goes_on, &Dispatch::broker_answers,
                                             &Dispatch::time_passes};
  std::shuffle(parts.begin(), parts.end(), random_);
  return std::any_of(parts.begin(), parts.end(), [this](auto part) { return (this->*part)(); });
}

bool Dispatch::submit_one() {
  if (jobs_.size() == static_cast<std::size_t>(options_.tasks) || !chance(60))
    return false;
  const auto job = std::make_shared<Job>();
  job->number = static_cast<int>(jobs_.size());
  job->shape = static_cast<int>(below(shapes_.size()));
  job->retries_left = static_cast<int>(below(3)) - 1;
  job->retry_errors = {Errc::task_failed};
  job->takes = job->shape % 2 == 1 && chance(20) ? gpuactors::Duration{60ms} : gpuactors::Duration{30us};
  jobs_.push_back(job);
  carry_out([&](Orders& orders) { core_.submit(job, shapes_[static_cast<std::size_t>(job->shape)], now_, orders); });
  return true;
}

bool Dispatch::thread_goes_on() {
  if (threads_.empty())
    return false;
  const auto thread = std::next(threads_.begin(), static_cast<std::ptrdiff_t>(below(threads_.size())));
  if (thread->empty()) {
    threads_.erase(thread);
    return true;
  }
  const auto next = std::move(thread->front());
  thread->pop_front();
  next();
  return true;
}

bool Dispatch::worker_goes_on() {
  std::vector<Worker*> busy;
  for (auto& [id, worker] : workers_)
    if (!worker.dead && !worker.queue.empty() && (!worker.queue.front().begun || worker.queue.front().done <= now_))
      busy.push_back(&worker);
  if (busy.empty())
    return false;
  auto& worker = *busy[below(busy.size())];
  auto& first = worker.queue.front();
  if (!first.begun) {
    first.begun = true;
    first.done = now_ + first.job->takes;
    if (++worker.begun > options_.max_calls && options_.max_calls > 0)
      violated("a lease runs more tasks than it may");
    return true;
  }
  const auto job = first.job;
  const auto call = first.call;
  worker.queue.pop_front();
  if (job->open == call)
    reply(job);
  return true;
}

bool Dispatch::broker_answers() {
  if (requests_.empty())
    return false;
  const auto request = std::next(requests_.begin(), static_cast<std::ptrdiff_t>(below(requests_.size())))->first;
  if (withdrawn_.count(request) > 0)
    refuse(request, Error{Errc::cancelled, "withdrawn"});
  else if (!calm_ && chance(options_.refusals))
    refuse(request, chance(50) ? Error{Errc::infeasible, "never"} : Error{Errc::unavailable, "not now"});
  else if (held() < options_.capacity)
    grant(request);
  else if (const auto first = std::find_if(
               workers_.begin(), workers_.end(),
               [](const auto& each) { return !each.second.released && !each.second.reclaimed && !each.second.dead; });
           first != workers_.end() && chance(20)) {
    // As the broker does for those who wait: else the tasks of one shape would keep all leases for themselves.
    reclaim(first->second);
  } else {
    return false;
  }
  return true;
}

bool Dispatch::time_passes() {
  now_ += below(1000) < 4 ? gpuactors::Duration{std::chrono::milliseconds{below(30)}}
                          : gpuactors::Duration{std::chrono::microseconds{below(10)}};
  if (timers_.empty() || timers_.begin()->first > now_)
    return true;
  const auto due = std::move(timers_.begin()->second);
  timers_.erase(timers_.begin());
  due();
  return true;
}

void Dispatch::fault() {
  const auto now_and_then = [this](int of_a_thousand) { return below(1000) < static_cast<std::size_t>(of_a_thousand); };
  if (now_and_then(options_.withdrawals) && !jobs_.empty())
    withdraw(jobs_[below(jobs_.size())]);
  if (now_and_then(options_.overdue) && !jobs_.empty())
    if (const auto job = jobs_[below(jobs_.size())]; !job->ended) {
      job->overdue = true;
      if (TaskCore::wait_is_over(*job)) {
        saw("waited too long");
        withdraw(job);
      }
    }
  if (workers_.empty())
    return;
  if (now_and_then(options_.deaths) && chance(50)) {
    const auto busiest = std::max_element(workers_.begin(), workers_.end(), [](const auto& one, const auto& other) {
      return one.second.open < other.second.open;
    });
    if (auto& worker = busiest->second; worker.open > 1 && !worker.dead) {
      saw("died with several");
      return dies(worker);
    }
  }
  auto& worker = std::next(workers_.begin(), static_cast<std::ptrdiff_t>(below(workers_.size())))->second;
  if (worker.dead || worker.released)
    return;
  if (now_and_then(options_.reclaims)) {
    // Perhaps before the lease can be used, or after it was given back.
    saw("reclaimed");
    reclaim(worker);
  }
  if (now_and_then(options_.endings) && !worker.queue.empty())
    ends(worker);
  if (now_and_then(options_.deaths)) {
    saw("died");
    dies(worker);
  }
}

// -- the shell ------------------------------------------------------------------------------------

void Dispatch::carry_out(const std::function<void(Orders&)>& decide) {
  Orders orders;
  Steps steps;
  decide(orders);
  admit(orders, steps);
  flush(std::move(orders), std::move(steps));
}

void Dispatch::admit(Orders& orders, Steps& steps) {
  for (std::size_t i = 0; i < orders.runs.size(); ++i)
    admit_run(Orders::Run{orders.runs[i]}, orders, steps);
  for (const auto& wanted : orders.acquires)
    known_shapes_[wanted.shape->asked->key] = wanted.shape;
  check_idle();
}

void Dispatch::check_idle() {
  // What was lost is not sent to leases that may be lost with it.
  for (const auto& job : jobs_)
    if (job->waits_again && job->is_lost)
      return;
  for (const auto& [key, weak] : known_shapes_)
    if (const auto shape = weak.lock(); shape != nullptr && shape->wanting() > 0 && !shape->idle.empty())
      violated("a task waits while a lease of its shape is idle");
}

void Dispatch::admit_run(const Orders::Run& run, Orders& orders, Steps& steps) {
  const auto job = std::static_pointer_cast<Job>(run.task);
  auto& worker = workers_.at(run.lease);
  if (job->withdrawn || job->ended)
    violated("a task starts that was given up");
  if (worker.released)
    violated("a task is sent to a lease that was given back");
  if (worker.reclaimed)
    violated("a task is sent to a lease that others wait for");
  if (worker.suspect)
    violated("a task is sent to a runner that ends");
  if (!options_.remote && worker.open > 0)
    violated("a task is sent ahead in one process");
  if (worker.open >= gpuactors::limits::tasks_ahead)
    violated("too many tasks are sent ahead");
  if (!calm_ && chance(options_.full_ports)) {
    saw("port full");
    job->waits_again = false;
    return core_.not_sent(job, Error{Errc::queue_full, "the port is full"}, now_, orders);
  }
  if (!job->again) {
    auto& last = last_first_.emplace(job->shape, -1).first->second;
    if (job->number < last)
      violated("a task overtakes an earlier one");
    last = job->number;
    for (const auto& other : jobs_)
      if (other->waits_again && !other->ended && other->shape == job->shape)
        violated("a task overtakes one that had its turn before");
  }
  for (const auto& other : jobs_)
    if (other->waits_again && !other->ended && other->shape == job->shape && other->number < job->number)
      violated("a task overtakes an earlier one that is to run again");
  job->waits_again = false;
  if (job->open)
    violated("a task is at two attempts");
  job->open = CallId{++last_call_};
  job->lease = run.lease;
  if (++worker.open > 1)
    saw("sent ahead");
  TaskCore::begin(*job, job->open);
  steps.emplace_back([this, job, lease = run.lease, call = job->open] { deliver(job, lease, call); });
}

void Dispatch::flush(Orders orders, Steps steps) {
  const auto sent = [](const std::vector<std::pair<std::shared_ptr<Job>, CallId>>& runs) {
    for (const auto& [job, call] : runs)
      TaskCore::sent(*job, call);
  };
  std::vector<std::pair<std::shared_ptr<Job>, CallId>> runs;
  for (std::size_t i = 0; i < orders.runs.size(); ++i) {
    const auto job = std::static_pointer_cast<Job>(orders.runs[i].task);
    runs.emplace_back(job, job->open);
  }
  steps.emplace_back([sent, runs = std::move(runs)] { sent(runs); });
  for (const auto& each : orders.recalls)
    steps.emplace_back([this, each] { recall(each); });
  for (const auto& lease : orders.releases)
    steps.emplace_back([this, lease] { release(lease); });
  for (const auto& wanted : orders.acquires)
    steps.emplace_back([this, wanted] { ask(wanted); });
  for (const auto request : orders.withdrawals)
    steps.emplace_back([this, request] { withdraw_request(request); });
  for (const auto& [task, error] : orders.failures) {
    const auto job = std::static_pointer_cast<Job>(task);
    job->waits_again = false;
    steps.emplace_back([this, job, error = error] {
      if (error.code() == Errc::queue_full)
        end(job);
      else
        fail(job, error);
    });
  }
  for (const auto due : orders.sweeps)
    steps.emplace_back([this, due] {
      timers_.emplace(due, [this, due] { carry_out([&](Orders& found) { core_.sweep(due, now_, found); }); });
    });
  threads_.push_back(std::move(steps));
}

void Dispatch::reply(const std::shared_ptr<Job>& job) {
  --workers_.at(job->lease).open;
  job->open = {};
  carry_out([&](Orders& orders) { core_.answered(*job, false, now_, orders); });
  // Another thread may come between.
  if (options_.failures > 0 && !calm_ && chance(options_.failures)) {
    saw("failed");
    threads_.push_back({[this, job] { fail(job, Error{Errc::task_failed, "it has failed"}); }});
  } else {
    threads_.push_back({[this, job] { end(job); }});
  }
}

void Dispatch::fail(const std::shared_ptr<Job>& job, const Error& error) {
  if (job->ended || !TaskCore::use_retry(*job, error, false))
    return end(job);
  TaskCore::begin_wait(*job);
  job->overdue = false;
  job->again = true;
  job->waits_again = true;
  job->is_lost = error.code() != Errc::task_failed;
  carry_out([&](Orders& orders) { core_.submit_again(job, error, now_, orders); });
}

void Dispatch::end(const std::shared_ptr<Job>& job) {
  job->ended = true;
}

void Dispatch::withdraw(const std::shared_ptr<Job>& job) {
  if (job->ended)
    return;
  saw("withdrawn");
  carry_out([&](Orders& orders) {
    const auto attempt = core_.withdraw(*job, orders);
    if (attempt.has_value() && (attempt->lease != job->lease || attempt->call != job->open))
      violated("another attempt than that of the task is asked to stop");
  });
  job->withdrawn = true;
  end(job);
}

// -- the other side -------------------------------------------------------------------------------

void Dispatch::deliver(const std::shared_ptr<Job>& job, LeaseId lease, CallId call) {
  auto& worker = workers_.at(lease);
  if (worker.released && !worker.dead)
    violated("a task comes after its lease was given back");
  delivered_.insert(call);
  if (!worker.dead)
    worker.queue.push_back({.job = job, .call = call});
}

void Dispatch::recall(const TaskCore::Attempt& attempt) {
  saw("recalled");
  if (delivered_.count(attempt.call) == 0)
    violated("a task is recalled before it was sent");
  auto& worker = workers_.at(attempt.lease);
  if (worker.dead)
    return;
  const auto found = std::find_if(worker.queue.begin(), worker.queue.end(),
                                  [&](const auto& entry) { return entry.call == attempt.call; });
  if (found == worker.queue.end() || found->begun)
    return;
  worker.queue.erase(found);
  threads_.push_back({[this, attempt] {
    carry_out([&](Orders& orders) {
      const auto task = core_.under_way(attempt);
      if (task == nullptr)
        return;
      saw("taken back");
      auto& job = static_cast<Job&>(*task);
      job.open = {};
      job.again = true;
      job.waits_again = !job.overdue;
      --workers_.at(attempt.lease).open;
      core_.taken_back(task, now_, orders);
    });
  }});
}

void Dispatch::release(TaskCore::LeaseKey lease) {
  auto& worker = workers_.at(lease.id);
  if (std::exchange(worker.released, true))
    violated("a lease is given back twice");
  if (!worker.dead && !worker.queue.empty())
    violated("a lease is given back that has work");
}

void Dispatch::ask(const Orders::Acquire& wanted) {
  requests_.emplace(wanted.request, wanted.shape);
  asked_.insert(wanted.request);
  if (core_.asked(wanted.request)) {
    saw("withdrawn before it was asked");
    withdraw_request(wanted.request);
  }
}

void Dispatch::withdraw_request(std::uint64_t request) {
  // It may have been answered meanwhile.
  if (asked_.count(request) == 0)
    violated("a request is withdrawn before it was asked");
  if (requests_.count(request) > 0)
    withdrawn_.insert(request);
}

void Dispatch::grant(std::uint64_t request) {
  const auto shape = requests_.at(request);
  requests_.erase(request);
  const LeaseId id{++last_lease_};
  workers_[id].lease = {id, 1};
  if (!options_.remote)
    return found(request, shape, id);
  core_.looks_up(id);
  threads_.push_back({[this, request, shape, id] { found(request, shape, id); }});
}

void Dispatch::found(std::uint64_t request, TaskCore::ShapePtr shape, LeaseId id) {
  auto& worker = workers_.at(id);
  if (worker.dead || (!calm_ && chance(options_.lost_leases))) {
    worker.dead = true;
    saw("lease had ended");
    core_.lost(id);
    release({id, 1});
    const Error error{Errc::worker_died, "it has ended"};
    if (core_.ended_early(shape))
      timers_.emplace(now_ + 100ms, [this, shape, request] {
        carry_out([&](Orders& orders) { core_.pause_over(shape, request, orders); });
      });
    else
      carry_out([&](Orders& orders) { core_.refused(shape, request, error, false, orders); });
    return;
  }
  Orders orders;
  Steps steps;
  const auto linger = chance(50) ? gpuactors::limits::lease_linger_wanted : gpuactors::limits::lease_linger;
  if (!core_.granted(shape, request, {{id, 1}, linger}, now_, orders))
    violated("a lease is refused that was granted");
  admit(orders, steps);
  worker.used = true;
  // The watch on its runner, which may find it ended.
  if (!calm_ && chance(options_.lost_leases)) {
    saw("dead on arrival");
    dies(worker);
  }
  flush(std::move(orders), std::move(steps));
}

void Dispatch::refuse(std::uint64_t request, const Error& error) {
  const auto shape = requests_.at(request);
  requests_.erase(request);
  withdrawn_.erase(request);
  const bool for_all = error.remedy() == gpuactors::Remedy::give_up;
  saw(for_all ? "refused for all" : "refused");
  carry_out([&](Orders& orders) { core_.refused(shape, request, error, for_all, orders); });
}

void Dispatch::reclaim(Worker& worker) {
  // Of one that is still looked up, one task is run all the same.
  worker.reclaimed = worker.used;
  carry_out([&](Orders& orders) { core_.reclaim(worker.lease.id, orders); });
}

void Dispatch::ends(Worker& worker) {
  saw("ends");
  for (const auto& entry : worker.queue)
    if (!entry.begun)
      threads_.push_back({[this, job = entry.job, call = entry.call] {
        if (job->open == call)
          fail_attempt(job, Error{Errc::not_begun, "it ends"});
      }});
  std::erase_if(worker.queue, [](const auto& entry) { return !entry.begun; });
  threads_.push_back({[this, &worker] {
    if (!worker.released && !worker.dead)
      dies(worker);
  }});
}

void Dispatch::fail_attempt(const std::shared_ptr<Job>& job, const Error& error) {
  auto& worker = workers_.at(job->lease);
  --worker.open;
  worker.suspect = true;
  job->open = {};
  carry_out([&](Orders& orders) { core_.answered(*job, true, now_, orders); });
  fail(job, error);
}

void Dispatch::dies(Worker& worker) {
  worker.dead = true;
  worker.queue.clear();
  const auto id = worker.lease.id;
  // It is told first, so that the lease gets no further task; then the attempts fail that are under way.
  carry_out([&](Orders& orders) { core_.runner_down(id, orders); });
  for (const auto& job : jobs_)
    if (job->open && job->lease == id)
      threads_.push_back({[this, job, call = job->open] {
        if (job->open == call)
          fail_attempt(job, Error{chance(20) ? Errc::not_begun : Errc::worker_died, "its worker has ended"});
      }});
}

std::size_t Dispatch::held() const {
  return static_cast<std::size_t>(std::count_if(
      workers_.begin(), workers_.end(), [](const auto& each) { return !each.second.released && !each.second.dead; }));
}

bool Dispatch::chance(int of_a_hundred) {
  return below(100) < static_cast<std::size_t>(of_a_hundred);
}

std::size_t Dispatch::below(std::size_t bound) {
  return bound == 0 ? 0 : random_() % bound;
}

void Dispatch::violated(std::string what) {
  violations_.push_back(std::move(what));
}

} // namespace simulation
