// Requests to end actors that come again, because their answer was lost with a connection.
#include <broker/core_scene.hpp>

using namespace broker_test;

namespace {

/// One request of client 1 to end the actor "a", over one connection after the other.
struct Kill {
  Kill(Scene& in, bool no_restart) : scene(in) {
    message.set_name("a");
    message.set_no_restart(no_restart);
    message.set_client(1);
    message.set_client_request(++scene.last_request);
  }

  /// Sends it, the first time or again. @returns whether it is answered at once.
  bool send() {
    const auto answered = std::make_shared<bool>(false);
    scene.core.kill(message, {},
                    BrokerAnswer<void>{[answered](const Result<void>& done) { *answered = done.has_value(); }});
    message.set_again(true);
    answers.push_back(answered);
    return *answered;
  }

  Scene& scene;
  v1::KillActor message;
  std::vector<std::shared_ptr<bool>> answers;
};

} // namespace

TEST_CASE("a kill that permits a restart and comes again does not end the next life", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  const auto client_peer = scene.world.last_peer;
  scene.add_node();
  const auto first = scene.spawn(1, "a");
  Kill kill{scene, false};
  CHECK_FALSE(kill.send());
  SECTION("but waits for the end of its own") {
    CHECK_FALSE(kill.send());
    scene.end(first);
    CHECK(*kill.answers.back());
  }
  SECTION("also if its client was away") {
    scene.end(first);
    scene.core.peer_down(client_peer);
    scene.greet(1);
  }
  scene.start(scene.world.starts.back());
  scene.world.ends.clear();
  CHECK(kill.send());
  CHECK(scene.world.ends.empty());
  CHECK(scene.core.state({}).actors(0).state() == "alive");
  // Another request is one of its own.
  Kill next{scene, false};
  CHECK_FALSE(next.send());
  CHECK(scene.world.ends.size() == 1);
}

TEST_CASE("a kill of an actor between two lives that comes again does not end the next one", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  scene.spawn(1, "a");
  for (int life = 1; life < 5 && scene.core.state({}).actors(0).state() != "restarting"; ++life) {
    scene.start(scene.world.starts.back());
    scene.end(scene.world.starts.back());
  }
  REQUIRE(scene.core.state({}).actors(0).state() == "restarting");
  Kill kill{scene, false};
  CHECK(kill.send());
  scene.start(scene.world.starts.back());
  REQUIRE(scene.core.state({}).actors(0).state() == "alive");
  CHECK(kill.send());
  CHECK(scene.core.state({}).actors(0).state() == "alive");
}

TEST_CASE("a kill by name that comes again does not end the next actor of that name", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto first = scene.spawn(1, "a");
  Kill kill{scene, true};
  CHECK_FALSE(kill.send());
  // Waits for the name.
  scene.ask(Scene::actor_of(1, "a"));
  scene.end(first);
  CHECK(*kill.answers.front());
  REQUIRE(scene.world.starts.size() == 2);
  scene.start(scene.world.starts.back());
  scene.world.ends.clear();
  CHECK(kill.send());
  CHECK(scene.world.ends.empty());
  CHECK(scene.core.state({}).actors_size() == 1);
}
