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
  v1::DrainNode drain;
  drain.set_name("n0");
  drain.set_deadline_ms(60'000);
  must(scene.core.drain(drain));
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
    v1::DrainNode drain;
    drain.set_name("n0");
    drain.set_deadline_ms(1'000);
    must(scene.core.drain(drain));
    scene.run(5s);
    REQUIRE(scene.world.ends.size() == static_cast<std::size_t>(time) + 1);
    scene.end(scene.world.starts.back());
    CHECK(scene.world.starts.size() == static_cast<std::size_t>(time) + 1);
    drain.set_resume(true);
    must(scene.core.drain(drain));
    REQUIRE(scene.world.starts.size() == static_cast<std::size_t>(time) + 2);
    scene.start(scene.world.starts.back());
  }
  const auto state = scene.core.state({});
  REQUIRE(state.actors_size() == 1);
  CHECK(state.actors(0).restarts() == 3);
  CHECK(state.actors(0).forgiven() == 3);
  CHECK(state.actors(0).moves() == 3);
}
