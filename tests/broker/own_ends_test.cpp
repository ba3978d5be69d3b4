// Actors that end themselves, and those that a node brings back in vain: for good, and whatever becomes of the report
// of it.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

using namespace broker_test;

namespace {

/// As its node tells it.
v1::LeaseEnded own_end_of(const v1::StartActor& order, const std::string& reason = "done") {
  v1::LeaseEnded ended;
  ended.set_lease(order.lease().id());
  ended.set_epoch(order.lease().epoch());
  ended.set_error(static_cast<std::uint32_t>(Errc::actor_died));
  ended.set_text("the actor has ended itself: " + reason);
  ended.set_by_itself(true);
  ended.set_actor(order.actor());
  return ended;
}

/// Registers a node of two lives: what it holds, and what has ended itself there.
std::uint64_t register_node(Scene& scene, const std::string& name, std::uint64_t agent,
                            const std::vector<v1::HeldLease>& held, const std::vector<v1::StartActor>& ended) {
  v1::RegisterNode message;
  message.mutable_node()->set_name(name);
  message.mutable_node()->set_cpu_units(100'000);
  message.set_agent(agent);
  for (const auto& lease : held)
    *message.add_held() = lease;
  for (const auto& order : ended) {
    auto& own = *message.add_own_ends();
    own.set_actor(order.actor());
    *own.mutable_end() = own_end_of(order);
  }
  scene.core.add_node(message, std::make_shared<Somebody>(),
                      BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  return scene.world.last_peer;
}

std::size_t actors_of(const Scene& scene) {
  return static_cast<std::size_t>(scene.core.state({}).actors_size());
}

const std::string as_it_said = "the actor has ended itself: done";

} // namespace

TEST_CASE("an actor that ends itself is not started again, and its end is told with its reason", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(1, "a");
  scene.core.lease_ended(own_end_of(order));
  CHECK(actors_of(scene) == 0);
  CHECK(scene.core.state({}).leases_size() == 0);
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.last_end() == as_it_said);
  CHECK(scene.count("died") == 1);
  CHECK(scene.count("restarting") == 0);
  v1::GetState events;
  events.set_events_from(1);
  const auto state = scene.core.state(events);
  CHECK(std::any_of(state.events().begin(), state.events().end(),
                    [](const auto& event) { return event.kind() == "died" && event.reason() == as_it_said; }));
  // The name is free.
  CHECK(scene.spawn(1, "a").restarts() == 0);
}

TEST_CASE("an actor that ends itself while it is asked to live elsewhere has ended", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(1, "a");
  bool answered = false;
  v1::KillActor kill;
  kill.set_name("a");
  scene.core.kill(kill, {}, BrokerAnswer<void>{[&](const Result<void>& result) { answered = result.has_value(); }});
  CHECK_FALSE(answered);
  scene.core.lease_ended(own_end_of(order));
  CHECK(answered);
  CHECK(actors_of(scene) == 0);
}

TEST_CASE("an actor that ends itself on a device that it has lost has ended", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  v1::RegisterNode message;
  message.mutable_node()->set_name("n0");
  auto& device = *message.mutable_node()->add_devices();
  device.set_kind("host");
  device.set_memory_bytes(1U << 20U);
  message.set_agent(7);
  scene.core.add_node(message, std::make_shared<Somebody>(),
                      BrokerAnswer<void>{[](const Result<void>& result) { must(result); }});
  auto wanted = Scene::actor_of(1, "a");
  wanted.mutable_request()->set_gpu_units(10'000);
  const auto order = scene.spawn(wanted);
  auto ended = own_end_of(order);
  ended.add_lost_devices(0);
  scene.core.lease_ended(ended);
  CHECK(actors_of(scene) == 0);
  CHECK(scene.last_end() == as_it_said);
}

TEST_CASE("an actor that has ended itself stays ended when the fault of its device is told first", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  v1::RegisterNode message;
  message.mutable_node()->set_name("n0");
  message.mutable_node()->set_cpu_units(100'000);
  for (const int index : {0, 1}) {
    auto& device = *message.mutable_node()->add_devices();
    device.set_index(index);
    device.set_uuid("d" + std::to_string(index));
    device.set_kind("host");
    device.set_memory_bytes(1U << 20U);
  }
  message.set_agent(7);
  scene.core.add_node(message, std::make_shared<Somebody>(),
                      BrokerAnswer<void>{[](const Result<void>& result) { must(result); }});
  auto wanted = Scene::actor_of(1, "a");
  wanted.mutable_request()->set_gpu_units(10'000);
  wanted.mutable_spec()->set_max_restarts(5);
  const auto order = scene.spawn(wanted);
  v1::DeviceFault fault;
  fault.set_node("n0");
  fault.add_devices(order.lease().devices(0).index());
  scene.core.devices_failed(fault);
  scene.core.lease_ended(own_end_of(order));
  // A life may have begun on the other device meanwhile: it is ended, too.
  if (actors_of(scene) > 0) {
    REQUIRE(scene.world.starts.size() == 2);
    const auto second = scene.world.starts.back();
    v1::LeaseEnded ended;
    ended.set_lease(second.lease().id());
    ended.set_epoch(second.lease().epoch());
    scene.core.lease_ended(ended);
  }
  CHECK(actors_of(scene) == 0);
  CHECK(scene.world.starts.size() <= 2);
}

TEST_CASE("an end that was reported while the connection was lost is told at the next registration", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  register_node(scene, "n0", 7, {}, {});
  const auto a = scene.spawn(1, "a");
  const auto b = scene.spawn(1, "b");
  register_node(scene, "n0", 7, {begun(b)}, {a});
  CHECK(actors_of(scene) == 1);
  CHECK(scene.last_end() == as_it_said);
  CHECK(scene.world.starts.size() == 2);
  // It is repeated for as long as the node is there.
  register_node(scene, "n0", 7, {begun(b)}, {a});
  CHECK(scene.count("died") == 1);
}

TEST_CASE("an actor that was taken for lost with its node ends when the node tells that it has ended itself",
          "[broker][core]") {
  Scene scene;
  scene.greet(1);
  const auto peer = register_node(scene, "n0", 7, {}, {});
  const auto order = scene.spawn(1, "a");
  scene.core.peer_down(peer);
  REQUIRE(scene.core.state({}).queue_size() == 1); // it waits for a node
  register_node(scene, "n1", 8, {}, {});
  const auto second = scene.world.starts.back();
  REQUIRE(second.restarts() == 1);

  SECTION("while it waits for a place again") {
    scene.end(second); // the first crash is made good at once
    scene.end(scene.world.starts.back());
    REQUIRE(scene.core.state({}).actors(0).state() == "restarting");
    register_node(scene, "n0", 7, {}, {scene.world.starts.back()});
    CHECK(actors_of(scene) == 0);
    CHECK(scene.last_end() == as_it_said);
    scene.run(1min);
    CHECK(actors_of(scene) == 0);
  }
  SECTION("but not when it lives elsewhere by now") {
    scene.start(second);
    register_node(scene, "n0", 7, {}, {order});
    CHECK(actors_of(scene) == 1);
    CHECK(scene.world.ends.empty());
  }
}

TEST_CASE("a restarted broker does not bring an actor back that has ended itself while there was none",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor order;
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node();
    order = first.spawn(1, "a");
    first.core.finish();
  }
  Scene scene{{.last_id = 1'000, .settle = 1s, .store = store}};
  scene.greet(1);
  REQUIRE(actors_of(scene) == 1);

  SECTION("its node is back in time") {
    register_node(scene, "n0", 7, {}, {order});
    scene.run(2s);
    CHECK(actors_of(scene) == 0);
    CHECK(scene.world.starts.empty());
    CHECK(scene.last_end() == as_it_said);
    // Nor does the next one.
    scene.core.finish();
    Scene third{{.last_id = 2'000, .settle = 1s, .store = store}};
    CHECK(actors_of(third) == 0);
  }
  SECTION("another node brings an earlier life of it, before or after") {
    auto earlier = begun(order);
    earlier.mutable_lease()->set_node("n1");
    order.mutable_lease()->set_id(order.lease().id() + 1);
    const bool before = GENERATE(true, false);
    if (before)
      register_node(scene, "n1", 8, {earlier}, {});
    register_node(scene, "n0", 7, {}, {order});
    if (!before)
      register_node(scene, "n1", 8, {earlier}, {});
    REQUIRE(scene.world.ends.size() == 1);
    CHECK(scene.world.ends.back().lease() == earlier.lease().id());
    v1::LeaseEnded ended;
    ended.set_lease(earlier.lease().id());
    ended.set_epoch(earlier.lease().epoch());
    scene.core.lease_ended(ended);
    scene.run(2s);
    CHECK(actors_of(scene) == 0);
    CHECK(scene.core.state({}).leases_size() == 0);
    CHECK(scene.last_end() == as_it_said);
  }
  SECTION("another node brings a later life of it, before or after") {
    auto later = order;
    later.mutable_lease()->set_id(order.lease().id() + 1);
    later.mutable_lease()->set_node("n1");
    later.set_restarts(1);
    const bool before = GENERATE(true, false);
    if (before)
      register_node(scene, "n1", 8, {begun(later)}, {});
    register_node(scene, "n0", 7, {}, {order});
    if (!before)
      register_node(scene, "n1", 8, {begun(later)}, {});
    scene.run(2s);
    REQUIRE(actors_of(scene) == 1);
    CHECK(scene.core.state({}).actors(0).state() == "alive");
    CHECK(scene.world.ends.empty());
  }
}

TEST_CASE("an end that a later life has overruled does not end that life at the next broker", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor order;
  {
    Scene first{{.store = store}};
    first.greet(1);
    const auto peer = register_node(first, "n0", 7, {}, {});
    order = first.spawn(1, "a");
    first.core.peer_down(peer);
    register_node(first, "n1", 8, {}, {});
    first.run(1min);
    REQUIRE(first.world.starts.size() == 2);
    first.start(first.world.starts.back());
    // It had ended itself while it was cut off, and went on elsewhere since.
    register_node(first, "n0", 7, {}, {order});
    CHECK(actors_of(first) == 1);
    first.core.finish();
  }
  Scene scene{{.last_id = 1'000, .settle = 1s, .store = store}};
  scene.greet(1);
  register_node(scene, "n0", 7, {}, {order});
  scene.run(2s);
  CHECK(actors_of(scene) == 1);
}

TEST_CASE("an actor that kills itself is refused, since it would wait for its own end", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto a = scene.spawn(1, "a");
  const auto b = scene.spawn(1, "b");
  const auto kill = [&](const std::string& name, std::uint64_t from) {
    v1::KillActor message;
    message.set_name(name);
    message.set_no_restart(true);
    message.set_from_lease(from);
    std::optional<Result<void>> answer;
    scene.core.kill(message, {}, BrokerAnswer<void>{[&](const Result<void>& result) { answer = result; }});
    scene.end(b);
    return answer;
  };
  const auto own = kill("a", a.lease().id());
  REQUIRE(own);
  CHECK(code_of(*own) == Errc::invalid_argument);
  CHECK(says(*own, "Actor::end"));
  CHECK(scene.world.ends.empty());
}

TEST_CASE("what gets the place of an own end that comes with a registration is not lost by that registration",
          "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  auto first = Scene::actor_of(1, "a");
  first.mutable_request()->set_cpu_units(100'000);
  const auto order = scene.spawn(first);
  auto next = Scene::actor_of(1, "b");
  next.mutable_request()->set_cpu_units(100'000);
  scene.ask(next);
  REQUIRE(scene.world.starts.size() == 1);
  register_node(scene, "n0", 7, {}, {order});
  // It was ordered at the node that registers, which could not hold it yet.
  REQUIRE(scene.world.starts.size() == 2);
  const auto state = scene.core.state({});
  REQUIRE(state.leases_size() == 1);
  CHECK(state.leases(0).id() == scene.world.starts.back().lease().id());
  REQUIRE(state.actors_size() == 1);
  CHECK(state.actors(0).restarts() == 0);
}
TEST_CASE("an actor that a node brings back ends if its client has got another one for the same request since",
          "[broker][core]") {
  v1::StartActor first;
  v1::SpawnActor message = Scene::actor_of(1, "");
  message.mutable_spec()->set_detached(false);
  message.set_client_request(5);
  const auto ask = [&message](Scene& scene) {
    scene.core.spawn_actor(message, {}, {}, BrokerAnswer<FoundActor>{[](const Result<FoundActor>&) {}});
  };
  {
    Scene before{{.last_id = 1'000}};
    before.greet(1);
    before.add_node();
    ask(before);
    first = before.world.starts.back();
  }
  Scene scene{{.last_id = 100'000, .settle = 1s}};
  scene.greet(1);
  scene.add_node("n1", 8);
  ask(scene);
  REQUIRE(scene.world.starts.size() == 1);
  const auto second = scene.world.starts.back();
  scene.start(second);
  scene.add_node({held_by(first)});
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.front().lease() == first.lease().id());
  scene.end(first);
  const auto state = scene.core.state({});
  REQUIRE(state.actors_size() == 1);
  CHECK(state.actors(0).id() == second.actor());
  CHECK(state.leases_size() == 1);
}
