// Which clients are told that others wait for the lease that they are granted, so that they do not keep it for nothing.
#include <broker/core_scene.hpp>

using namespace broker_test;

namespace {

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

  /// Asks for a task's lease of so many cpus; the node has 10. And of its device?
  std::shared_ptr<Lease> acquire(std::uint64_t client, int cpus, bool device = false) {
    v1::AcquireLease message;
    if (device)
      message.mutable_request()->set_gpu_units(10'000);
    message.mutable_request()->set_cpu_units(10'000 * std::int64_t{cpus});
    message.set_client(client);
    message.set_client_request(++last_request);
    auto lease = std::make_shared<Lease>();
    leases[{client, message.client_request()}] = lease;
    core.acquire(message, {}, BrokerAnswer<Grant>{[lease](const Result<Grant>& grant) {
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

TEST_CASE("who waits for more of the same waits for no lease of its own, and an actor for every one",
          "[broker][core]") {
  WantedScene scene;
  const auto first = scene.acquire(1, 10);
  (void)scene.acquire(1, 10);
  CHECK_FALSE(scene.start(*first));
  const auto other = scene.acquire(1, 9);
  scene.end(*first);
  REQUIRE_FALSE(other->order);
  WantedScene with_actor;
  const auto lease = with_actor.acquire(1, 10);
  auto actor = Scene::actor_of(2, "a");
  actor.mutable_request()->set_cpu_units(10'000);
  with_actor.ask(actor);
  CHECK(with_actor.start(*lease));
}

TEST_CASE("what waits for long while no lease helps it is no reason to give others back, as what has just come is",
          "[broker][core]") {
  WantedScene scene;
  (void)scene.spawn_on(10'000);
  CHECK_FALSE(scene.acquire(2, 0, true)->order);
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
