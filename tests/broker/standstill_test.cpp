// The broker's core after it stood still: others have given it up, and it has not given them up.
#include <broker/core_scene.hpp>

using namespace broker_test;

namespace {

/// The broker waits for nodes and clients after it stood still, with the options `watched`.
constexpr std::chrono::seconds patience = limits::settle;
const BrokerOptions watched{.heartbeat = 1s, .link_timeout = 5s};

} // namespace

TEST_CASE("a broker that stood still gives nodes and clients time to come back", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  const auto client_peer = scene.world.last_peer;
  scene.add_node();
  auto owned = Scene::actor_of(1, "b");
  owned.mutable_spec()->set_detached(false);
  const std::vector held{held_by(scene.spawn(1, "a")), held_by(scene.spawn(owned))};

  scene.stand_still();
  scene.core.peer_down(scene.node_peer);
  scene.core.peer_down(client_peer);
  scene.run(3s);
  CHECK(scene.count("stood_still") == 1);
  CHECK(scene.count("node_away") == 1);
  CHECK(scene.count("client_away") == 1);
  CHECK(scene.core.state({}).nodes(0).state() == "away");
  scene.add_node(held);
  CHECK(scene.core.state({}).nodes(0).state() == "ok");
  scene.greet(1);
  scene.run(patience + 1s);
  CHECK(scene.count("node_lost") == 0);
  CHECK(scene.count("node_returned") == 1);
  CHECK(scene.count("client_returned") == 1);
  CHECK(scene.world.starts.size() == 2);
  CHECK(scene.world.ends.empty());

  // Who does not come back is given up after that time ...
  scene.stand_still();
  scene.core.peer_down(scene.world.last_peer);
  scene.run(patience - 100ms);
  CHECK(scene.world.ends.empty());
  scene.run(200ms);
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == held.back().lease().id());
  scene.stand_still();
  scene.core.peer_down(scene.node_peer);
  scene.run(patience - 100ms);
  CHECK(scene.count("node_lost") == 0);
  scene.run(200ms);
  CHECK(scene.count("node_lost") == 1);

  // ... and at once if the broker has run all the time.
  scene.add_node();
  scene.run(1s);
  scene.core.peer_down(scene.node_peer);
  CHECK(scene.count("node_lost") == 2);
}

TEST_CASE("a broker whose machine was suspended stood still, although its clock has not gone on", "[broker][core]") {
  Scene scene{watched};
  scene.add_node();
  scene.run(1s);
  scene.world.suspended += 1h;
  scene.core.peer_down(scene.node_peer);
  CHECK(scene.count("stood_still") == 1);
  CHECK(scene.count("node_away") == 1);
  scene.add_node();
  scene.run(10s);
  CHECK(scene.count("stood_still") == 1);
  CHECK(scene.count("node_lost") == 0);
}

TEST_CASE("a client's time ends only after the patience of a broker that stood still", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1, {}, 300ms);
  scene.add_node();
  auto owned = Scene::actor_of(1, "a");
  owned.mutable_spec()->set_detached(false);
  scene.spawn(owned);
  scene.core.peer_down(scene.world.last_peer - 1);
  CHECK(scene.count("client_away") == 1);
  // The client's time is over before the next pulse: whatever wakes the broker, it sees that it stood still.
  scene.stand_still();
  scene.run(patience - 100ms);
  CHECK(scene.count("stood_still") == 1);
  CHECK(scene.world.ends.empty());
  SECTION("it comes back") {
    scene.greet(1, {}, 300ms);
    scene.run(10s);
    CHECK(scene.count("client_returned") == 1);
    CHECK(scene.world.ends.empty());
  }
  SECTION("it does not") {
    scene.run(200ms);
    CHECK(scene.world.ends.size() == 1);
  }
}

TEST_CASE("what runs on a node that is being emptied has until the patience of a broker that stood still is over",
          "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  scene.add_node();
  scene.spawn(1, "a", {}, 0);
  scene.drain("n0", 300ms);
  CHECK(scene.world.ends.empty());
  scene.stand_still();
  scene.run(patience - 100ms);
  CHECK(scene.count("stood_still") == 1);
  CHECK(scene.world.ends.empty());
  scene.run(2s);
  CHECK(scene.world.ends.size() == 1);
}

TEST_CASE("a first start that was late while the broker stood still has until its patience is over", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  scene.add_node();
  auto limited = Scene::actor_of(1, "a");
  limited.mutable_spec()->set_spawn_timeout_ms(300);
  scene.ask(limited);
  REQUIRE(scene.world.starts.size() == 1);
  scene.stand_still();
  scene.run(patience - 100ms);
  CHECK(scene.world.ends.empty());
  SECTION("its node tells that it has started") {
    scene.start(scene.world.starts.front());
    scene.run(10s);
    CHECK(scene.world.ends.empty());
  }
  SECTION("its node does not") {
    scene.run(200ms);
    CHECK(scene.world.ends.size() == 1);
  }
}

TEST_CASE("a broker that starts and stands still waits for those of the earlier one until its patience is over",
          "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.greet(2);
  earlier.add_node();
  std::vector<v1::HeldLease> held;
  for (const std::uint64_t client : {1, 2}) {
    auto owned = Scene::actor_of(client, std::to_string(client));
    owned.mutable_spec()->set_detached(false);
    held.push_back(held_by(earlier.spawn(owned)));
  }
  Scene scene{{.last_id = 1'000, .settle = 500ms, .heartbeat = 1s, .link_timeout = 5s}};
  scene.add_node(held);
  scene.stand_still();
  scene.run(patience - 100ms);
  CHECK(scene.world.ends.empty());
  scene.greet(1);
  scene.run(200ms);
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == held.back().lease().id());
}

TEST_CASE("what a standstill is, and how long others have after it, follows the link timeout", "[broker][core]") {
  Scene scene{{.heartbeat = 200ms, .link_timeout = 1s}};
  scene.add_node();
  // Nobody gives the broker up for that.
  scene.world.time += 700ms;
  scene.run(1s);
  CHECK(scene.count("stood_still") == 0);
  scene.world.time += 900ms;
  scene.core.peer_down(scene.node_peer);
  CHECK(scene.count("stood_still") == 1);
  // Two link timeouts, and the longest pause between attempts to connect.
  scene.run(2900ms);
  CHECK(scene.count("node_lost") == 0);
  scene.run(200ms);
  CHECK(scene.count("node_lost") == 1);

  Scene slow{{.heartbeat = 500ms, .link_timeout = 1s}};
  slow.world.time += 700ms;
  slow.run(10s);
  CHECK(slow.count("stood_still") == 0);
  slow.world.time += 1s;
  slow.run(1s);
  CHECK(slow.count("stood_still") == 1);
}

TEST_CASE("a node that was restarted while the broker stood still is taken at once", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  const auto peer = scene.add_node("n0", 7);
  scene.spawn(1, "a");
  scene.stand_still();
  scene.core.peer_down(peer);
  CHECK(scene.count("node_away") == 1);
  scene.add_node("n0", 8);
  CHECK(scene.count("node_lost") == 1);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().restarts() == 1);
  scene.run(10s);
  CHECK(scene.core.state({}).nodes_size() == 1);
}

TEST_CASE("nothing is placed on nodes that have not come back after the broker stood still", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  const auto away = scene.add_node("n0", 7);
  scene.add_node("n1", 8);
  scene.stand_still();
  scene.core.peer_down(away);
  CHECK(scene.count("node_away") == 1);
  // Both have as much room, and n0 comes first by its name.
  CHECK(scene.spawn(1, "a").lease().node() == "n1");
  auto wanted = Scene::actor_of(1, "b");
  wanted.mutable_request()->set_node("n0");
  scene.ask(wanted);
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.core.state({}).queue(0).reason().find("node n0 is away") != std::string::npos);
  scene.add_node("n0", 7);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().lease().node() == "n0");
  CHECK(scene.spawn(1, "c").lease().node() == "n0");
  CHECK(scene.count("lost") == 0);
  CHECK(scene.count("restarting") == 0);
}

TEST_CASE("what was on a node that does not come back is not placed on another that does not", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  const auto first = scene.add_node("n0", 7);
  scene.spawn(1, "a");
  const auto second = scene.add_node("n1", 8);
  scene.stand_still();
  scene.core.peer_down(first);
  scene.core.peer_down(second);
  scene.run(patience);
  CHECK(scene.count("node_lost") == 2);
  CHECK(scene.count("restarting") == 1);
  CHECK(scene.world.starts.size() == 1);
  scene.add_node("n2", 9);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().lease().node() == "n2");
  CHECK(scene.world.starts.back().restarts() == 1);
}

TEST_CASE("a node that is away is still shown as drained", "[broker][core]") {
  Scene scene{watched};
  scene.add_node();
  CHECK_FALSE(scene.core.state({}).nodes(0).draining());
  scene.drain("n0");
  scene.stand_still();
  scene.core.peer_down(scene.node_peer);
  const auto state = scene.core.state({});
  CHECK(state.nodes(0).state() == "away");
  CHECK(state.nodes(0).draining());
}

TEST_CASE("a node that was stopped is told from one that was lost", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  scene.add_node();
  scene.spawn(1, "a", {}, 0);
  // Of another process, which was refused under this name.
  scene.goodbye("n0", 8);
  CHECK(scene.core.state({}).nodes(0).state() == "ok");
  scene.goodbye("n0", 7);
  CHECK(scene.core.state({}).nodes(0).state() == "draining");
  // Nobody waits for its return, even if the broker stood still meanwhile.
  scene.stand_still();
  scene.core.peer_down(scene.node_peer);
  const auto state = scene.core.state({});
  CHECK(state.nodes().empty());
  CHECK(state.counters().at("node_left") == 1);
  CHECK(state.counters().count("node_lost") == 0);
  CHECK(scene.last_end() == "node n0 was stopped");

  scene.add_node();
  scene.run(patience);
  scene.core.peer_down(scene.node_peer);
  CHECK(scene.core.state({}).counters().at("node_lost") == 1);
}
