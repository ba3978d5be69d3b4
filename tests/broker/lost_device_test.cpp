// What becomes of leases on devices that fail: they are lost at once, and what they have besides is free when their
// holders have ended.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

using namespace broker_test;

TEST_CASE("an actor that loses one of its devices lives again when its holder has ended, and its others are free then",
          "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node("n0", 7, {}, 2);
  const auto order = scene.spawn_on(20'000);
  auto next = Scene::actor_of(1, "b");
  next.mutable_request()->set_gpu_units(10'000);
  scene.ask(next);
  REQUIRE(scene.world.starts.size() == 1);
  scene.fail("n0", {0});
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().grace_ms() == stop_grace);
  CHECK(scene.world.starts.size() == 1);
  const auto before = scene.core.state({});
  REQUIRE(before.actors_size() == 2);
  CHECK(before.actors(0).state() == "stopping");
  scene.end(order);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().spec().name() == "b");
  const auto after = scene.core.state({});
  CHECK(after.actors(0).state() == "waiting");
  CHECK(after.actors(0).restarts() == 1);
  REQUIRE(after.devices_size() == 2);
  CHECK(after.devices(1).free_units() == 0);
}

TEST_CASE("an actor that is stuck on a lost device lives again elsewhere", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node("n0", 7, {}, 2);
  const auto order = scene.spawn_on(10'000);
  scene.fail("n0", {order.lease().devices(0).index()});
  CHECK(scene.world.starts.size() == 1);
  v1::LeaseStuck stuck;
  stuck.set_lease(order.lease().id());
  stuck.set_epoch(order.lease().epoch());
  stuck.set_text("it does not stop");
  scene.core.stuck(stuck);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().lease().devices(0).index() != order.lease().devices(0).index());
}

TEST_CASE("a lost lease whose end was not heard is given back when its node is back without it", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node("n0", 7, {}, 2);
  const auto order = scene.spawn_on(20'000, 0);
  scene.fail("n0", {1});
  scene.add_node("n0", 7, {held_by(order)}, 2);
  // Told again.
  REQUIRE(scene.world.ends.size() == 2);
  CHECK(scene.world.ends.back().lease() == order.lease().id());
  CHECK(scene.core.state({}).actors_size() == 1);
  scene.add_node("n0", 7, {}, 2);
  const auto state = scene.core.state({});
  CHECK(state.actors_size() == 0);
  CHECK(state.devices(0).free_units() == 10'000);
}

TEST_CASE("a later broker gives nobody what the holder of a lost lease still has", "[broker][core]") {
  Scene first;
  first.greet(1);
  first.add_node("n0", 7, {}, 2);
  const auto order = first.spawn_on(20'000);
  Scene scene{{.last_id = 1'000}};
  scene.add_node("n1", 8);
  v1::RegisterNode back;
  auto& node = *back.mutable_node();
  node.set_name("n0");
  for (int index = 0; index < 2; ++index) {
    auto& device = *node.add_devices();
    device.set_index(index);
    device.set_kind("host");
    device.set_memory_bytes(8U << 20U);
    device.set_units(1);
  }
  node.mutable_devices(0)->set_fault("it is broken");
  back.set_agent(7);
  *back.add_held() = held_by(order);
  scene.core.add_node(back, std::make_shared<Somebody>(),
                      BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == order.lease().id());
  CHECK(scene.core.state({}).devices(1).free_units() == 0);
  scene.end(order);
  CHECK(scene.core.state({}).devices(1).free_units() == 10'000);
}

TEST_CASE("a device that fails while its node waits to be admitted by another broker is out of use there",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node("n0", 7, {}, 2);
    first.add_node("n1", 8, {}, 1);
    first.add_spread_group();
    first.core.finish();
  }
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  second.add_node("n0", 7, {}, 2);
  REQUIRE(second.core.state({}).nodes_size() == 0); // its group's other node is not there yet
  second.fail("n0", {1});
  second.add_node("n1", 8, {}, 1);
  const auto state = second.core.state({});
  REQUIRE(state.devices_size() == 3);
  CHECK(state.devices(0).state() == "ok");
  CHECK(state.devices(1).state() == "failed");
}

TEST_CASE("a node that returns has its new address, and its devices keep their faults", "[broker][core]") {
  Scene scene;
  scene.add_node("n0", 7, {}, 2);
  scene.fail("n0", {1});
  v1::RegisterNode again;
  *again.mutable_node() = scene.core.state({}).nodes(0).node();
  again.mutable_node()->mutable_devices(1)->clear_fault();
  again.mutable_node()->set_address("10.0.0.2:7000");
  again.set_agent(7);
  scene.core.add_node(again, std::make_shared<Somebody>(),
                      BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  const auto state = scene.core.state({});
  CHECK(state.nodes(0).agent_address() == "10.0.0.2:7000");
  REQUIRE(state.devices_size() == 2);
  CHECK(state.devices(1).state() == "failed");
  CHECK(state.devices(1).reason() == "it is broken");
}

TEST_CASE("a fault that another node of the same name tells of is not this one's", "[broker][core]") {
  Scene scene;
  scene.add_node("n0", 7, {}, 2);
  v1::DeviceFault message;
  message.set_node("n0");
  message.set_agent(8);
  message.add_devices(0);
  message.set_reason("it is broken");
  scene.core.devices_failed(message);
  CHECK(scene.core.state({}).devices(0).state() == "ok");
  message.set_agent(7);
  scene.core.devices_failed(message);
  CHECK(scene.core.state({}).devices(0).state() == "failed");
}
