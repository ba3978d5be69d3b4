// How long TaskCore keeps a lease that has no more tasks.
#include <gpuactors/cluster/core/task_core.hpp>

#include <support/catch.hpp>

#include <chrono>
#include <memory>
#include <set>
#include <utility>
#include <vector>

using namespace gpuactors;
using namespace std::chrono_literals;
using detail::QueuedTask;
using detail::TaskCore;
using detail::TaskShape;

namespace {

class Task : public QueuedTask {
public:
  [[nodiscard]] bool finished() const noexcept override {
    return false;
  }
};

/// A client whose tasks run one after the other, its broker, and its clock.
struct Client {
  explicit Client(bool remote = true) : core(remote, 4) {
    shape->key = "shape";
  }

  /// Submits a task and runs it. @returns whether it had to ask for a lease, which the broker grants as `granted` says.
  bool run() {
    const auto task = std::make_shared<Task>();
    TaskCore::Orders orders;
    core.submit(task, shape, now, orders);
    const bool asks = !orders.acquires.empty();
    if (asks)
      grant(orders.acquires.front(), orders);
    REQUIRE(orders.runs.size() == 1);
    answer(*task, orders);
    return asks;
  }

  /// Has a task run under a lease of its own, which is idle then, and queues it again after this error.
  TaskCore::Orders run_again(Errc error) {
    const auto task = std::make_shared<Task>();
    TaskCore::Orders first;
    core.submit(task, shape, now, first);
    grant(first.acquires.front(), first);
    answer(*task, first);
    TaskCore::Orders again;
    core.submit_again(task, Error{error, "it has failed"}, now, again);
    return again;
  }

  /// Submits tasks at once, each of which gets a lease of its own, that others want or not, and ends so long after the
  /// one before it.
  void run_at_once(const std::vector<bool>& wanted, Duration apart) {
    TaskCore::Orders orders;
    std::vector<std::shared_ptr<Task>> tasks;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      tasks.push_back(std::make_shared<Task>());
      core.submit(tasks.back(), shape, now, orders);
    }
    const auto wishes = orders.acquires;
    REQUIRE(wishes.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      granted.set_wanted(wanted[i]);
      grant(wishes[i], orders);
    }
    for (const auto& task : tasks) {
      now += apart;
      answer(*task, orders);
    }
  }

  void grant(const TaskCore::Orders::Acquire& wish, TaskCore::Orders& orders) {
    (void)core.asked(wish.request);
    granted.mutable_lease()->set_id(++last_lease);
    core.granted(wish.shape, wish.request, core.grant_of(wish.shape, granted), now, orders);
  }

  /// The core's name for the shape.
  TaskCore::ShapePtr core_shape() {
    TaskCore::Orders orders;
    core.submit(std::make_shared<Task>(), shape, now, orders);
    return orders.acquires.front().shape;
  }

  void answer(QueuedTask& task, TaskCore::Orders& orders) {
    TaskCore::begin(task, CallId{++last_call});
    core.answered(task, false, now, orders);
    note(orders);
  }

  void note(TaskCore::Orders& orders) {
    for (const auto due : std::exchange(orders.sweeps, {}))
      sweeps.insert(due);
  }

  /// Lets time pass, and does what was ordered for it. @returns the leases that were given back meanwhile.
  std::vector<LeaseId> pass(Duration time) {
    const auto until = now + time;
    std::vector<LeaseId> given_back;
    while (!sweeps.empty() && *sweeps.begin() <= until) {
      now = *sweeps.begin();
      sweeps.erase(sweeps.begin());
      ++swept;
      TaskCore::Orders orders;
      core.sweep(now, now, orders);
      note(orders);
      for (const auto& lease : orders.releases)
        given_back.push_back(lease.id);
    }
    now = until;
    return given_back;
  }

  TaskCore core;
  std::shared_ptr<TaskShape> shape = std::make_shared<TaskShape>();
  v1::Granted granted;
  TimePoint now{1h};
  std::multiset<TimePoint> sweeps;
  int swept = 0;
  std::uint64_t last_lease = 0;
  std::uint64_t last_call = 0;
};

/// Longer than a lease is kept that may be idle for so long.
Duration longer_than(Duration linger) {
  return linger + linger / 4;
}

} // namespace

TEST_CASE("a lease that nobody else wants is kept for the next task", "[simulation]") {
  Client client;
  CHECK(client.run());
  CHECK(client.pass(limits::lease_linger).empty());
  CHECK_FALSE(client.run());
  CHECK(client.pass(limits::lease_linger).empty());
  CHECK(client.pass(limits::lease_linger / 4).size() == 1);
  CHECK(client.core.empty());
  CHECK(client.run());
}

TEST_CASE("a task that is queued again runs under the idle lease of its shape, and asks for no other", "[simulation]") {
  Client client;
  const auto again = client.run_again(Errc::task_failed);
  REQUIRE(again.runs.size() == 1);
  CHECK(again.runs[0].lease == LeaseId{1});
  CHECK(again.acquires.empty());
}

TEST_CASE("a task that was lost is not sent to an idle lease, which may be lost with it", "[simulation]") {
  Client client;
  const auto again = client.run_again(GENERATE(Errc::worker_died, Errc::context_lost, Errc::not_begun));
  CHECK(again.runs.empty());
  CHECK(again.acquires.size() == 1);
}

TEST_CASE("a task that comes back from a lease which others want runs under an idle one of its shape", "[simulation]") {
  Client client;
  // Until tasks are known to be short, and are sent ahead.
  for (int i = 0; i < 100; ++i)
    client.run();
  std::vector<std::shared_ptr<Task>> tasks;
  TaskCore::Orders orders;
  for (int i = 0; i < 6; ++i) {
    tasks.push_back(std::make_shared<Task>());
    client.core.submit(tasks.back(), client.shape, client.now, orders);
  }
  const auto wishes = orders.acquires;
  REQUIRE(wishes.size() == 4);
  client.answer(*tasks[0], orders);
  REQUIRE(orders.runs.size() == 3);
  REQUIRE(orders.runs[2].lease == LeaseId{1});
  for (const auto& wish : wishes)
    client.grant(wish, orders);
  REQUIRE(orders.runs.size() == 6);
  client.core.reclaim(LeaseId{1}, orders);
  client.answer(*tasks[1], orders);
  TaskCore::Orders last;
  client.core.taken_back(tasks[2], client.now, last);
  CHECK(last.releases.size() == 1);
  REQUIRE(last.runs.size() == 1);
  CHECK(last.runs[0].lease == LeaseId{5});
}

TEST_CASE("a lease that others want is given back when it has no more tasks, and serves those that come at once",
          "[simulation]") {
  Client client;
  client.granted.set_wanted(true);
  CHECK(client.run());
  for (int i = 0; i < 100; ++i) {
    CHECK(client.pass(limits::lease_linger_wanted).empty());
    CHECK_FALSE(client.run());
    CHECK(client.sweeps.size() <= 2);
  }
  CHECK(client.pass(longer_than(limits::lease_linger_wanted)).size() == 1);
  CHECK(client.core.empty());
}

TEST_CASE("a process of its own is kept for the next task also when others want its lease", "[simulation]") {
  Client client;
  client.granted.set_wanted(true);
  const auto kept = [&client, shape = client.core_shape()] {
    return client.core.grant_of(shape, client.granted).linger;
  };
  CHECK(kept() == limits::lease_linger_wanted);
  client.granted.mutable_lease()->add_devices();
  CHECK(kept() == limits::lease_linger_wanted);
  SECTION("for several devices") {
    client.granted.mutable_lease()->add_devices();
  }
  SECTION("for accelerators of other kinds") {
    (*client.granted.mutable_lease()->mutable_resource_units())["neuron_cores"] = 10'000;
  }
  SECTION("because the task asks for it") {
    client.shape->request.set_isolated(true);
  }
  CHECK(kept() == limits::lease_linger);
}

TEST_CASE("in one process, no lease has a process of its own", "[simulation]") {
  Client client{false};
  client.granted.set_wanted(true);
  client.shape->request.set_isolated(true);
  CHECK(client.core.grant_of(client.core_shape(), client.granted).linger == limits::lease_linger_wanted);
}

TEST_CASE("a lease that others want is given back in time beside one that nobody wants, without a timer for each task",
          "[simulation]") {
  Client client;
  client.run_at_once({false, true}, Duration::zero());
  // The one that was idle last takes the next task, so the second one.
  for (int i = 0; i < 100; ++i) {
    CHECK(client.pass(limits::lease_linger_wanted / 2).empty());
    CHECK_FALSE(client.run());
    CHECK(client.sweeps.size() <= 2);
  }
  CHECK(client.swept <= 100);
  CHECK(client.pass(longer_than(limits::lease_linger_wanted)) == std::vector{LeaseId{2}});
  CHECK(client.pass(longer_than(limits::lease_linger)) == std::vector{LeaseId{1}});
  CHECK(client.core.empty());
  CHECK(client.sweeps.empty());
}

TEST_CASE("one sweep gives back many leases that came to be idle one after the other", "[simulation]") {
  Client client{false};
  client.run_at_once({false, false, false, false}, limits::lease_linger / 100);
  CHECK(client.pass(longer_than(limits::lease_linger)).size() == 4);
  CHECK(client.swept == 1);
}
