// The broker's core and nodes that are drained.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

using namespace broker_test;

TEST_CASE("a node that is drained again without a deadline keeps what runs there", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  scene.spawn(1, "a", {}, 0);
  scene.drain("n0", 1s);
  scene.drain("n0");
  scene.run(5s);
  CHECK(scene.world.ends.empty());
  CHECK(scene.core.state({}).nodes(0).state() == "draining");
  // The same with a deadline.
  scene.drain("n0", 1s);
  scene.run(5s);
  CHECK(scene.world.ends.size() == 1);
}

TEST_CASE("what only a drained node has room for is started when it takes work again, and refused when it is gone",
          "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
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
  scene.drain("n0");
  spawn("a");
  CHECK(scene.world.starts.empty());
  CHECK(scene.core.state({}).queue_size() == 1);
  scene.undrain("n0");
  REQUIRE(scene.world.starts.size() == 1);
  scene.start(scene.world.starts.back());

  // A node that is being stopped is drained until it is gone.
  scene.goodbye("n0", 7);
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
  scene.drain("n0");
  CHECK(stored() == 1);
  scene.goodbye("n0", 7);
  scene.core.peer_down(peer);
  CHECK(stored() == 0);
}
