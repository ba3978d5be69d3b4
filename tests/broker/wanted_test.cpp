// Which clients are told that others wait for the lease that they are granted, so that they do not keep it for nothing.
#include <broker/core_scene.hpp>

using namespace broker_test;

namespace {

/// What else a request says.
struct More {
  bool device = false;
  std::uint64_t group = 0;
  Caller caller = {};
};

struct WantedScene : Scene {
  WantedScene() {
    for (const auto client : {1, 2, 3})
      greet(static_cast<std::uint64_t>(client));
    add_node("n0", 7, {}, 1);
  }

  struct Lease {
    std::optional<v1::StartRunner> order;
    std::optional<bool> wanted;
  };

  /// Asks for a task's lease of so many cpus; the node has 10, and a device.
  std::shared_ptr<Lease> acquire(std::uint64_t client, int cpus, const More& more = {}) {
    v1::AcquireLease message;
    auto& request = *message.mutable_request();
    request.set_cpu_units(10'000 * std::int64_t{cpus});
    request.set_group(more.group);
    // Half of it, so that no actor of a whole one is beside it.
    if (more.device)
      request.set_gpu_units(5'000);
    message.set_client(client);
    message.set_client_request(++last_request);
    auto lease = std::make_shared<Lease>();
    leases[{client, message.client_request()}] = lease;
    core.acquire(message, more.caller, BrokerAnswer<Grant>{[lease](const Result<Grant>& grant) {
                   lease->wanted = must(grant).granted.wanted();
                 }});
    see();
    return lease;
  }

  /// Which leases were granted, whose runners are to be started.
  void see() {
    for (const auto& order : world.runners)
      leases.at({order.client(), order.client_request()})->order = order;
  }

  /// Its node has started the runner. @returns what the client is told.
  bool start(Lease& lease) {
    v1::LeaseStarted started;
    started.set_lease(lease.order.value().lease().id());
    started.set_epoch(lease.order->lease().epoch());
    core.lease_started(started);
    return lease.wanted.value();
  }

  void end(Lease& lease) {
    Scene::end(lease.order.value());
    see();
  }

  std::map<std::pair<std::uint64_t, std::uint64_t>, std::shared_ptr<Lease>> leases;
};

} // namespace

TEST_CASE("a client is told that others wait for the lease that it is granted", "[broker][core]") {
  WantedScene scene;
  const auto first = scene.acquire(1, 10);
  CHECK_FALSE(scene.start(*first));
  const auto second = scene.acquire(2, 10);
  const auto third = scene.acquire(3, 10);
  REQUIRE_FALSE(second->order);
  scene.end(*first);
  CHECK(scene.start(*second));
  scene.end(*second);
  CHECK_FALSE(scene.start(*third));
}

TEST_CASE("other tasks of the same client count, and more of the same ones do not", "[broker][core]") {
  WantedScene scene;
  const auto first = scene.acquire(1, 10);
  const auto second = scene.acquire(1, 10);
  CHECK_FALSE(scene.start(*first));
  const auto other = scene.acquire(1, 9);
  scene.end(*first);
  CHECK(scene.start(*second));
  CHECK_FALSE(other->order);
}

TEST_CASE("an actor or a placement group that waits counts", "[broker][core]") {
  WantedScene scene;
  const auto lease = scene.acquire(1, 10);
  SECTION("an actor") {
    auto actor = Scene::actor_of(2, "a");
    actor.mutable_request()->set_cpu_units(10'000);
    scene.ask(actor);
  }
  SECTION("a group") {
    v1::SubmitGroup group;
    group.set_client(2);
    group.set_client_request(++scene.last_request);
    group.add_bundles()->set_cpu_units(10'000);
    scene.core.submit_group(group, {}, BrokerAnswer<v1::GroupInfo>{[](const Result<v1::GroupInfo>&) {}});
  }
  CHECK(scene.start(*lease));
}

TEST_CASE("a lease that holds nothing makes way for nobody, and one from a group for who waits in that group",
          "[broker][core]") {
  WantedScene scene;
  const auto group = scene.add_group();
  const auto drawn = scene.acquire(1, 1, {.group = group});
  const auto empty = scene.acquire(1, 0);
  const auto rest = scene.acquire(1, 9);
  REQUIRE_FALSE(scene.acquire(2, 5)->order);
  CHECK_FALSE(scene.start(*empty));
  CHECK(scene.start(*rest));
  SECTION("nobody waits in it") {
    CHECK_FALSE(scene.start(*drawn));
  }
  SECTION("somebody does") {
    REQUIRE_FALSE(scene.acquire(3, 1, {.group = group})->order);
    CHECK(scene.start(*drawn));
  }
}

TEST_CASE("what waits for long while no lease helps it is no reason to give others back, as what has just come is",
          "[broker][core]") {
  WantedScene scene;
  (void)scene.spawn_on(10'000);
  SECTION("a task") {
    CHECK_FALSE(scene.acquire(2, 0, {.device = true})->order);
  }
  SECTION("an actor") {
    auto actor = Scene::actor_of(2, "b");
    actor.mutable_request()->set_gpu_units(10'000);
    scene.ask(actor);
  }
  auto held = scene.acquire(1, 10);
  CHECK(scene.start(*held));
  scene.run(1min);
  scene.end(*held);
  held = scene.acquire(1, 10);
  CHECK_FALSE(scene.start(*held));
  const auto next = scene.acquire(3, 10);
  const auto again = scene.acquire(1, 10);
  scene.end(*held);
  CHECK(scene.start(*next));
  scene.run(2s);
  scene.end(*next);
  CHECK_FALSE(scene.start(*again));
}

TEST_CASE("what a quota keeps waiting counts for its owner's leases alone", "[broker][core]") {
  WantedScene scene;
  v1::SetQuota quota;
  quota.set_owner("alice");
  quota.set_gpu_units(5'000);
  must(scene.core.set_quota(quota));
  const auto hers = scene.acquire(1, 1, {.device = true, .caller = {"alice", false}});
  REQUIRE(hers->order);
  REQUIRE_FALSE(scene.acquire(1, 2, {.device = true, .caller = {"alice", false}})->order);
  const auto his = scene.acquire(2, 1, {.caller = {"bob", false}});
  CHECK_FALSE(scene.start(*his));
  CHECK(scene.start(*hers));
}
