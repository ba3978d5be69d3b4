// Placement groups at their end, and at the next broker.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

using namespace broker_test;

namespace {

/// Has a detached group placed: so many bundles of a device, each on a node of its own. @returns its id.
std::uint64_t spread_devices(Scene& scene, int bundles, std::uint64_t queue_timeout_ms = 0) {
  v1::SubmitGroup group;
  group.set_client(1);
  group.set_client_request(++scene.last_request);
  group.set_detached(true);
  group.set_strategy(v1::SubmitGroup::STRICT_SPREAD);
  group.set_queue_timeout_ms(queue_timeout_ms);
  for (int number = 0; number < bundles; ++number)
    group.add_bundles()->set_gpu_units(10'000);
  std::uint64_t id = 0;
  scene.core.submit_group(
      group, {}, BrokerAnswer<v1::GroupInfo>{[&](const Result<v1::GroupInfo>& placed) { id = must(placed).id(); }});
  REQUIRE(id != 0);
  return id;
}

/// A request for an actor that restarts for ever, in the group's first bundle.
v1::SpawnActor member_of(std::uint64_t group) {
  auto member = Scene::actor_of(1, "member");
  member.mutable_spec()->set_max_restarts(-1);
  member.mutable_request()->set_gpu_units(10'000);
  member.mutable_request()->set_group(group);
  return member;
}

/// A node with a device on which a group has all, and in the group a lease for tasks that has all.
struct LendingScene : Scene {
  LendingScene() {
    greet(1);
    add_node("n0", 7, {}, 1);
    group = spread_devices(*this, 1);
    lender = acquire(10'000, 0);
  }

  /// Asks for a lease in the group, or borrowed. @returns the order that was granted last.
  v1::StartRunner acquire(std::int64_t units, std::uint64_t parent) {
    v1::AcquireLease message;
    message.set_client(1);
    message.set_client_request(++last_request);
    message.mutable_request()->set_gpu_units(units);
    if (parent != 0)
      message.mutable_request()->set_parent_lease(parent);
    else
      message.mutable_request()->set_group(group);
    core.acquire(message, {}, BrokerAnswer<Grant>{[](const Result<Grant>&) {}});
    REQUIRE_FALSE(world.runners.empty());
    return world.runners.back();
  }

  /// Asks for the group's end. @returns whether it has ended, also later.
  std::shared_ptr<bool> remove() {
    v1::ReleaseGroup release;
    release.set_id(group);
    auto removed = std::make_shared<bool>(false);
    core.release_group(release, {},
                       BrokerAnswer<void>{[removed](const Result<void>& done) { *removed = done.has_value(); }});
    return removed;
  }

  [[nodiscard]] bool is_ended(std::uint64_t lease) const {
    return std::any_of(world.ends.begin(), world.ends.end(),
                       [lease](const v1::EndLease& order) { return order.lease() == lease; });
  }

  std::uint64_t group = 0;
  v1::StartRunner lender;
};

} // namespace

// -- the end of a group ----------------------------------------------------------------------------

TEST_CASE("a group that is removed keeps its device until what borrows from a lease inside it has ended, too",
          "[broker][core]") {
  LendingScene scene;
  const auto borrower = scene.acquire(5'000, scene.lender.lease().id());
  REQUIRE(borrower.lease().parent() == scene.lender.lease().id());
  auto next = Scene::actor_of(1, "next");
  next.mutable_request()->set_gpu_units(10'000);
  scene.ask(next);
  const auto removed = scene.remove();
  CHECK(scene.is_ended(scene.lender.lease().id()));
  CHECK(scene.is_ended(borrower.lease().id()));
  scene.end(scene.lender);
  CHECK_FALSE(*removed);
  CHECK(scene.world.starts.empty());
  CHECK(scene.core.state({}).leases_size() == 1);
  scene.end(borrower);
  CHECK(*removed);
  CHECK(scene.world.starts.size() == 1);
}

TEST_CASE("what borrows inside a group that is being removed is ended at once", "[broker][core]") {
  LendingScene scene;
  const auto first = scene.acquire(10'000, scene.lender.lease().id());
  const auto waits = scene.acquire(10'000, scene.lender.lease().id());
  REQUIRE(waits.lease().id() == first.lease().id());
  const auto removed = scene.remove();
  scene.end(first);
  REQUIRE(scene.world.runners.size() == 3);
  const auto second = scene.world.runners.back();
  CHECK(scene.is_ended(second.lease().id()));
  scene.end(scene.lender);
  CHECK_FALSE(*removed);
  scene.end(second);
  CHECK(*removed);
  CHECK(scene.core.state({}).devices(0).free_units() == 10'000);
}

TEST_CASE("an actor that borrows inside a group that is removed lives again elsewhere, when it has ended",
          "[broker][core]") {
  LendingScene scene;
  auto message = Scene::actor_of(1, "borrower");
  message.mutable_request()->set_gpu_units(5'000);
  message.mutable_request()->set_parent_lease(scene.lender.lease().id());
  const auto borrower = scene.spawn(message);
  const auto removed = scene.remove();
  scene.add_node("n1", 8, {}, 1);
  scene.end(scene.lender);
  CHECK(scene.world.starts.size() == 1);
  CHECK_FALSE(*removed);
  scene.end(borrower);
  CHECK(*removed);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().restarts() == 1);
}

// -- the next broker -------------------------------------------------------------------------------

TEST_CASE("a group that had its places waits without a limit for nodes that are late, at each later broker",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor member;
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node("n0", 7, {}, 1);
    first.add_node("n1", 8, {}, 1);
    member = first.spawn(member_of(spread_devices(first, 2, 1'000)));
    first.core.finish();
  }
  const bool between = GENERATE(false, true);
  if (between) {
    Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
    second.run(2s);
    second.core.finish();
  }
  Scene last{{.last_id = 1U << 31U, .settle = 1s, .store = store}};
  last.run(10min);
  const auto waiting = last.core.state({});
  REQUIRE(waiting.groups_size() == 1);
  CHECK(waiting.groups(0).state() == "waiting");
  REQUIRE(waiting.actors_size() == 1);
  CHECK(waiting.actors(0).state() == "waiting");
  last.add_node("n0", 9, {}, 1);
  last.add_node("n1", 10, {}, 1);
  CHECK(last.core.state({}).groups(0).state() == "placed");
  REQUIRE(last.world.starts.size() == 1);
  CHECK(last.world.starts.front().actor() == member.actor());
}

TEST_CASE("a group loses only the bundle whose device has failed, or is gone, before the next broker places it",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node("n0", 7, {}, 1);
    first.add_node("n1", 8, {}, 1);
    static_cast<void>(spread_devices(first, 2));
    first.core.finish();
  }
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  const bool has_failed = GENERATE(true, false);
  second.add_node("n0", 7, {}, has_failed ? 1 : 0);
  if (has_failed)
    second.fail("n0", {0});
  second.add_node("n1", 8, {}, 1);
  second.run(2s);
  auto state = second.core.state({});
  REQUIRE(state.groups_size() == 1);
  CHECK(state.groups(0).state() == "waiting");
  REQUIRE(state.groups(0).bundles_size() == 2);
  CHECK(state.groups(0).bundles(0).node().empty());
  CHECK(state.groups(0).bundles(1).node() == "n1");
  second.add_node("n2", 9, {}, 1);
  state = second.core.state({});
  CHECK(state.groups(0).state() == "placed");
  CHECK(state.groups(0).bundles(0).node() == "n2");
  CHECK(state.groups(0).bundles(1).node() == "n1");
}
