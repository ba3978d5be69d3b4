// The broker's core and nodes that are drained.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

using namespace broker_test;

TEST_CASE("a node that is drained again without a deadline keeps what runs there", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  scene.spawn(1, "a", {}, 0);
  v1::DrainNode drain;
  drain.set_name("n0");
  drain.set_deadline_ms(1'000);
  must(scene.core.drain(drain));
  drain.clear_deadline_ms();
  must(scene.core.drain(drain));
  scene.run(5s);
  CHECK(scene.world.ends.empty());
  CHECK(scene.core.state({}).nodes(0).state() == "draining");
  // The same with a deadline.
  drain.set_deadline_ms(1'000);
  must(scene.core.drain(drain));
  scene.run(5s);
  CHECK(scene.world.ends.size() == 1);
}

TEST_CASE("what only a drained node has room for is started when it takes work again, and refused when it is gone",
          "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  v1::DrainNode drain;
  drain.set_name("n0");
  std::vector<Error> refused;
  const auto spawn = [&](const std::string& name) {
    v1::SpawnActor message;
    message.set_client(1);
    message.set_client_request(++scene.last_request);
    message.mutable_spec()->set_type("T");
    message.mutable_spec()->set_name(name);
    const auto answer = [&](const Result<FoundActor>& found) {
      if (!found)
        refused.push_back(found.error());
    };
    scene.core.spawn_actor(message, {}, {}, BrokerAnswer<FoundActor>{answer});
  };
  REQUIRE(scene.core.drain(drain).has_value());
  spawn("a");
  CHECK(scene.world.starts.empty());
  CHECK(scene.core.state({}).queue_size() == 1);
  drain.set_resume(true);
  REQUIRE(scene.core.drain(drain).has_value());
  REQUIRE(scene.world.starts.size() == 1);
  scene.start(scene.world.starts.back());

  // A node that is being stopped is drained until it is gone.
  v1::Goodbye goodbye;
  goodbye.set_node("n0");
  goodbye.set_agent(7);
  scene.core.goodbye(goodbye);
  spawn("b");
  CHECK(scene.core.state({}).queue_size() == 1);
  CHECK(refused.empty());
  scene.core.peer_down(scene.node_peer);
  CHECK(scene.core.state({}).queue_size() == 0);
  REQUIRE(refused.size() == 1);
  CHECK(refused.front() == Error{Errc::infeasible, "no node is registered"});
}

TEST_CASE("a node that drains itself and stops is forgotten", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene scene{{.store = store}};
  const auto stored = [&] {
    scene.run(1s);
    return must(store->load(StateSection::nodes)).size();
  };
  const auto peer = scene.add_node("n0", 7);
  v1::DrainNode drain;
  drain.set_name("n0");
  must(scene.core.drain(drain));
  CHECK(stored() == 1);
  v1::Goodbye goodbye;
  goodbye.set_node("n0");
  goodbye.set_agent(7);
  scene.core.goodbye(goodbye);
  scene.core.peer_down(peer);
  CHECK(stored() == 0);
}
