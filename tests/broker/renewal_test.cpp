// The broker's core alone: nodes whose programs change while they hold placement groups, or are being emptied.
#include <broker/memory_store.hpp>
#include <broker/types_scene.hpp>

using namespace broker_test;

namespace {

/// A node with all types and a placement group of one cpu on it, and a second node that has all types, too.
struct GroupScene : TypesScene {
  explicit GroupScene(BrokerOptions options = {}) : TypesScene(std::move(options)) {
    add("n0", 1, full);
    group = add_group();
    add("n1", 2, full);
  }

  [[nodiscard]] v1::SpawnActor member(const std::string& name, std::int64_t cpu_units = 1'000) const {
    auto message = actor("acme.model", name);
    message.mutable_request()->set_cpu_units(cpu_units);
    message.mutable_request()->set_group(group);
    return message;
  }

  /// Asks for a lease for tasks in the group.
  std::shared_ptr<std::optional<Error>> acquire_in_group(std::int64_t cpu_units) {
    return acquire("acme.blur", cpu_units, group);
  }

  [[nodiscard]] std::string state_of_group() const {
    const auto state = core.state({});
    return state.groups_size() == 1 ? state.groups(0).state() : std::string{};
  }

  std::uint64_t group = 0;
};

} // namespace

TEST_CASE("what waits in a placement group whose node loses its type is not found, and the holders stay",
          "[broker][core]") {
  GroupScene scene;
  const auto holder = scene.spawn(scene.member("a", 6'000));
  scene.acquire_in_group(4'000);
  REQUIRE(scene.world.runners.size() == 1);
  const auto waiting = scene.acquire_in_group(5'000);
  const auto next = scene.spawn_error(scene.member("b", 5'000));
  REQUIRE_FALSE(waiting->has_value());
  REQUIRE_FALSE(next->has_value());
  scene.renew("n0", 1, 1, scene.plain);
  CHECK(waiting->value() == Error{Errc::not_found, "bundle 0: node n0 does not have the type \"task acme.blur\""});
  CHECK((*next)->code() == Errc::not_found);
  CHECK(scene.world.ends.empty());
  CHECK(scene.count("died") == 0);
  CHECK(scene.state_of_group() == "placed");
  // What the group's place is needed for need not be of that type.
  scene.end(holder);
  CHECK_FALSE(scene.acquire("echo", 5'000, scene.group)->has_value());
  CHECK(scene.world.runners.size() == 2);
}

TEST_CASE("a holder in a placement group lives again in its place when the node has its type again", "[broker][core]") {
  GroupScene scene;
  const auto first = scene.spawn(scene.member("a"));
  CHECK(first.lease().node() == "n0");
  scene.renew("n0", 1, 1, scene.plain);
  scene.end(first);
  scene.run(60s);
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.queue_reason()
        == "it waits for new nodes: bundle 0: node n0 does not have the type \"actor acme.model\"");
  // What waits so keeps nobody else from the place, nor from the cluster.
  scene.acquire("echo", 10'000, scene.group);
  CHECK(scene.world.runners.size() == 1);
  scene.end(scene.world.runners[0]);
  scene.renew("n0", 1, 2, scene.full);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts[1].lease().node() == "n0");
  CHECK(scene.world.starts[1].lease().group() == scene.group);
  CHECK(scene.world.starts[1].restarts() == 1);
}

TEST_CASE("a placement group can be removed while a holder waits for its type there", "[broker][core]") {
  GroupScene scene;
  const auto first = scene.spawn(scene.member("a"));
  scene.renew("n0", 1, 1, scene.plain);
  scene.end(first);
  v1::ReleaseGroup release;
  release.set_id(scene.group);
  bool removed = false;
  scene.core.release_group(release, {},
                           BrokerAnswer<void>{[&](const Result<void>& done) { removed = done.has_value(); }});
  CHECK(removed);
  CHECK(scene.last_end().find("was removed") != std::string::npos);
  scene.renew("n0", 1, 2, scene.full);
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.count("error") == 0);
}

TEST_CASE("an order in a placement group that is sent back for its type waits there for it", "[broker][core]") {
  GroupScene scene;
  scene.ask(scene.member("a"));
  REQUIRE(scene.world.starts.size() == 1);
  const auto task = scene.acquire_in_group(1'000);
  REQUIRE(scene.world.runners.size() == 1);
  // The node tells of its programs before it sends back what it got before the broker knew.
  scene.renew("n0", 1, 1, scene.plain);
  const auto send_back = [&](const v1::Lease& lease) {
    v1::LeaseEnded ended;
    ended.set_lease(lease.id());
    ended.set_epoch(lease.epoch());
    ended.set_error(static_cast<std::uint32_t>(Errc::lease_revoked));
    ended.set_text("no program of node n0 has the type any more");
    scene.core.lease_ended(ended);
  };
  send_back(scene.world.starts[0].lease());
  send_back(scene.world.runners[0].lease());
  CHECK((*task)->code() == Errc::lease_revoked);
  scene.run(60s);
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.count("died") == 0);
  scene.renew("n0", 1, 2, scene.full);
  CHECK(scene.world.starts.size() == 2);
}

TEST_CASE("a broker that was started again has holders of a placement group wait for a type that went meanwhile",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor order;
  std::uint64_t group = 0;
  {
    TypesScene earlier{{.store = store}};
    earlier.add("n0", 1, earlier.full);
    group = earlier.add_group(true);
    auto message = TypesScene::actor("acme.model", "a");
    message.mutable_request()->set_group(group);
    order = earlier.spawn(message);
    earlier.core.finish();
  }
  TypesScene scene{{.last_id = order.lease().id() + (1U << 20), .settle = 5s, .store = store}};
  scene.add("n0", 3, scene.plain);
  scene.run(60s);
  CHECK(scene.world.starts.empty());
  CHECK(scene.count("died") == 0);
  CHECK(scene.queue_reason().find("does not have the type \"actor acme.model\"") != std::string::npos);
  scene.renew("n0", 3, 1, scene.full);
  REQUIRE(scene.world.starts.size() == 1);
  CHECK(scene.world.starts[0].lease().group() == group);
}

TEST_CASE("the last node of a type that has it no more has requests answered, and actors wait", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.full);
  const auto first = scene.spawn(TypesScene::actor("acme.model", "a"));
  scene.acquire("echo", 90'000);
  const auto waiting = scene.acquire("echo", 90'000);
  REQUIRE_FALSE(waiting->has_value());
  scene.renew("n0", 1, 1, {}); // its only program has been withdrawn
  CHECK((*waiting)->code() == Errc::not_found);
  CHECK((*scene.acquire("echo"))->code() == Errc::not_found);
  CHECK((*scene.spawn_error(TypesScene::actor("counter", "b")))->code() == Errc::not_found);
  CHECK(scene.world.ends.empty());
  scene.end(first);
  scene.run(60s);
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.queue_reason().find("no node has the type \"actor acme.model\"") != std::string::npos);
  scene.renew("n0", 1, 2, scene.full);
  CHECK(scene.world.starts.size() == 2);
}

TEST_CASE("a node whose programs change while it is being emptied gets nothing, until it is resumed",
          "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  const auto first = scene.spawn(TypesScene::actor("counter", "a"));
  auto wanted = TypesScene::actor("acme.model", "b");
  wanted.mutable_request()->set_wait_for_nodes(true);
  scene.ask(wanted);
  scene.drain("n0", 60s);
  scene.renew("n0", 1, 1, scene.full);
  scene.run(5s);
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.world.ends.empty());
  // Where it moves to must have its type, and others of the node's new types go there, too.
  scene.add("n1", 2, scene.full);
  scene.run(5s);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts[1].spec().name() == "b");
  REQUIRE(scene.world.ends.size() == 1);
  scene.end(first);
  REQUIRE(scene.world.starts.size() == 3);
  CHECK(scene.world.starts[2].lease().node() == "n1");
  scene.run(5s);
  CHECK(scene.count("node_empty") == 1);
  scene.undrain("n0");
  CHECK(scene
            .spawn([&] {
              auto third = TypesScene::actor("acme.model", "c");
              third.mutable_request()->set_cpu_units(100'000);
              return third;
            }())
            .lease()
            .node()
        == "n0");
}

TEST_CASE("an actor whose new place loses its type while it moves goes on where the type is", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.full);
  const auto first = scene.spawn(TypesScene::actor("acme.model", "a", 1));
  scene.add("n1", 2, scene.full);
  scene.drain("n0", 60s);
  scene.run(5s);
  REQUIRE(scene.world.ends.size() == 1);
  scene.renew("n1", 2, 1, scene.plain);
  scene.add("n2", 3, scene.full);
  scene.end(first);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts[1].lease().node() == "n2");
  CHECK(scene.world.starts[1].forgiven() == 1);
  // Of the place that it was to have, nothing is left.
  scene.acquire("echo", 100'000);
  REQUIRE(scene.world.runners.size() == 1);
  CHECK(scene.world.runners[0].lease().node() == "n1");
}
