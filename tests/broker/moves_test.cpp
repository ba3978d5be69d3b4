// Actors that move off nodes that are being emptied, as the state counts them.
#include <broker/core_scene.hpp>

#include <vector>

using namespace broker_test;

TEST_CASE("the state tells moves off drained nodes from restarts that count, also of the next broker",
          "[broker][core]") {
  const auto counts = [](const Scene& scene) {
    const auto state = scene.core.state({});
    REQUIRE(state.actors_size() == 1);
    const auto& actor = state.actors(0);
    return std::vector{actor.restarts(), actor.restarts() - actor.forgiven(), actor.moves()};
  };
  Scene scene;
  scene.greet(1);
  scene.add_node("n0", 7);
  scene.end(scene.spawn(1, "a"));
  scene.run(1s);
  REQUIRE(scene.world.starts.size() == 2);
  const auto second = scene.world.starts.back();
  scene.start(second);
  CHECK(counts(scene) == std::vector{1, 1, 0});
  scene.add_node("n1", 8);
  scene.drain("n0", 60s);
  scene.run(5s);
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(counts(scene) == std::vector{1, 1, 0});
  scene.end(second);
  REQUIRE(scene.world.starts.size() == 3);
  const auto moved = scene.world.starts.back();
  scene.start(moved);
  CHECK(moved.lease().node() == "n1");
  CHECK(counts(scene) == std::vector{2, 1, 1});
  Scene later{{.last_id = 1'000}};
  later.add_node("n1", 8, {held_by(moved)});
  CHECK(counts(later) == std::vector{2, 1, 1});
}

TEST_CASE("an actor that must leave its node before another one has room waits for it, and uses up no restart",
          "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node("n0", 7);
  scene.start(scene.spawn(1, "a", {}, 1));
  for (int time = 0; time < 3; ++time) {
    scene.drain("n0", 1s);
    scene.run(5s);
    REQUIRE(scene.world.ends.size() == static_cast<std::size_t>(time) + 1);
    scene.end(scene.world.starts.back());
    CHECK(scene.world.starts.size() == static_cast<std::size_t>(time) + 1);
    scene.undrain("n0");
    REQUIRE(scene.world.starts.size() == static_cast<std::size_t>(time) + 2);
    // Also if it has not begun its new life when it has to leave again.
    if (time == 0)
      scene.start(scene.world.starts.back());
  }
  const auto state = scene.core.state({});
  REQUIRE(state.actors_size() == 1);
  CHECK(state.actors(0).restarts() == 3);
  CHECK(state.actors(0).forgiven() == 3);
  CHECK(state.actors(0).moves() == 3);
}

TEST_CASE("a lease that a client keeps for its next task makes way for an actor that moves", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.greet(2);
  scene.add_node("n0", 7);
  auto message = Scene::actor_of(1, "a");
  message.mutable_request()->set_cpu_units(60'000);
  scene.spawn(message);
  scene.add_node("n1", 8);
  v1::AcquireLease acquire;
  acquire.set_client(2);
  acquire.set_client_request(1);
  acquire.mutable_request()->set_cpu_units(100'000);
  scene.core.acquire(acquire, {}, BrokerAnswer<Grant>{[](const Result<Grant>&) {}});
  REQUIRE(scene.world.runners.size() == 1);
  const auto kept = scene.world.runners.front();
  REQUIRE(kept.lease().node() == "n1");
  scene.drain("n0", 60s);
  REQUIRE(scene.world.reclaims.size() == 1);
  CHECK(scene.world.reclaims.front().lease() == kept.lease().id());
  CHECK(scene.world.ends.empty());
  // It is asked for once.
  scene.run(5s);
  CHECK(scene.world.reclaims.size() == 1);
  scene.end(kept);
  scene.run(1s);
  REQUIRE(scene.world.ends.size() == 1);
  scene.end(scene.world.starts.back());
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().lease().node() == "n1");
}
