// How long TaskCore keeps a lease that has no more tasks.
#include <gpuactors/cluster/core/task_core.hpp>

#include <support/catch.hpp>

#include <chrono>

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

/// A client whose tasks take a lease each time, and its clock.
struct Client {
  explicit Client(bool isolated = false) {
    shape->key = "shape";
    shape->request.set_isolated(isolated);
  }

  /// Submits a task and runs it. @returns whether it had to ask for a lease, which the broker grants in these words.
  bool run(bool wanted) {
    const auto task = std::make_shared<Task>();
    TaskCore::Orders orders;
    core.submit(task, shape, now, orders);
    const bool asks = !orders.acquires.empty();
    if (asks) {
      const auto wish = orders.acquires.front();
      (void)core.asked(wish.request);
      core.granted(wish.shape, wish.request, {{LeaseId{++last_lease}, 1}, wanted}, now, orders);
    }
    REQUIRE(orders.runs.size() == 1);
    TaskCore::begin(*task, CallId{++last_call});
    core.answered(*task, false, now, orders);
    note(orders);
    return asks;
  }

  /// Lets time pass, and does what was ordered for it. @returns whether the lease was given back meanwhile.
  bool pass(Duration time) {
    const auto until = now + time;
    bool given_back = false;
    while (!sweeps.empty() && *sweeps.begin() <= until) {
      const auto due = *sweeps.begin();
      sweeps.erase(sweeps.begin());
      now = std::max(now, due);
      TaskCore::Orders orders;
      core.sweep(due, now, orders);
      given_back |= !orders.releases.empty();
      note(orders);
    }
    now = until;
    return given_back;
  }

  void note(const TaskCore::Orders& orders) {
    if (orders.sweep)
      sweeps.insert(*orders.sweep);
  }

  TaskCore core{false, 4};
  std::shared_ptr<TaskShape> shape = std::make_shared<TaskShape>();
  TimePoint now{1h};
  std::multiset<TimePoint> sweeps;
  std::uint64_t last_lease = 0;
  std::uint64_t last_call = 0;
};

} // namespace

TEST_CASE("a lease that nobody else wants is kept for the next task", "[simulation]") {
  Client client;
  CHECK(client.run(false));
  CHECK_FALSE(client.pass(limits::lease_linger - 1ms));
  CHECK_FALSE(client.run(false));
  CHECK_FALSE(client.pass(limits::lease_linger - 1ms));
  CHECK(client.pass(1ms));
  CHECK(client.core.empty());
  CHECK(client.run(false));
}

TEST_CASE("a lease that others want is given back when it has no more tasks, and serves those that come at once",
          "[simulation]") {
  Client client;
  CHECK(client.run(true));
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(client.pass(limits::lease_linger_wanted - 1us));
    CHECK_FALSE(client.run(true));
    CHECK(client.sweeps.size() <= 2);
  }
  CHECK(client.pass(limits::lease_linger_wanted));
  CHECK(client.core.empty());
}

TEST_CASE("a process of its own is kept for the next task also when others want its lease", "[simulation]") {
  Client client{true};
  CHECK(client.run(true));
  CHECK_FALSE(client.pass(limits::lease_linger - 1ms));
  CHECK(client.pass(1ms));
}

TEST_CASE("a lease that others want is given back in time beside one that nobody wants", "[simulation]") {
  Client client;
  TaskCore::Orders orders;
  const auto one = std::make_shared<Task>();
  const auto other = std::make_shared<Task>();
  client.core.submit(one, client.shape, client.now, orders);
  client.core.submit(other, client.shape, client.now, orders);
  REQUIRE(orders.acquires.size() == 2);
  for (const auto& wish : orders.acquires) {
    (void)client.core.asked(wish.request);
    const auto id = LeaseId{++client.last_lease};
    client.core.granted(wish.shape, wish.request, {{id, 1}, id == LeaseId{2}}, client.now, orders);
  }
  REQUIRE(orders.runs.size() == 2);
  TaskCore::begin(*one, CallId{1});
  TaskCore::begin(*other, CallId{2});
  client.core.answered(*one, false, client.now, orders);
  client.note(orders);
  orders = {};
  client.core.answered(*other, false, client.now, orders);
  client.note(orders);
  CHECK(client.pass(limits::lease_linger_wanted));
  CHECK(client.core.leases() == std::vector{LeaseId{1}});
  CHECK_FALSE(client.pass(limits::lease_linger - 2 * limits::lease_linger_wanted));
  CHECK(client.pass(limits::lease_linger_wanted));
}
