// How actors are started, and started again.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>
#include <support/heap.hpp>

#include <atomic>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// The lives in which a `Fragile` cannot be made.
std::atomic<int> first_bad_life{0};
std::atomic<int> last_bad_life{-1};

/// Needs something that is not always there.
class Fragile : public Actor {
public:
  explicit Fragile(Init init) : Actor(std::move(init)) {
    if (restarts() >= first_bad_life && restarts() <= last_bad_life)
      throw std::runtime_error("the file is not there");
  }

  Number life(const google::protobuf::Empty&) {
    return number(restarts());
  }
};

Cluster embed_fragile() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_actor<Fragile>("fragile", *made).method("life", &Fragile::life);
    return made;
  }();
  return embed(registry);
}

const v1::Event* find_event(const v1::ClusterState& state, const std::string& kind) {
  for (const auto& event : state.events())
    if (event.kind() == kind)
      return &event;
  return nullptr;
}

} // namespace

TEST_CASE("a constructor that fails ends the actor in its first life", "[cluster]") {
  auto cluster = embed_fragile();
  first_bad_life = 0;
  last_bad_life = 0;
  const auto spawned = cluster.spawn("fragile", {}, {.max_restarts = -1});
  REQUIRE_FALSE(spawned.has_value());
  CHECK(spawned.error().message().find("the file is not there") != std::string::npos);
  CHECK(must(cluster.state()).actors_size() == 0);
}

TEST_CASE("a constructor that fails in a later life is tried again after a pause, until it succeeds", "[cluster]") {
  auto cluster = embed_fragile();
  first_bad_life = 1;
  last_bad_life = 3;
  const auto actor = must(cluster.spawn("fragile", {}, {.max_restarts = -1}));
  REQUIRE(cluster.kill(actor, {.restart = true}).has_value());
  CHECK(must(actor.call<Number>("life", google::protobuf::Empty{}, 30s).get()).value() == 4);
  const auto state = must(cluster.state({.events_from = 1}));
  const auto* event = find_event(state, "restarting");
  REQUIRE(event != nullptr);
  CHECK(event->unix_ns() > 0);
  CHECK(state.counters().at("restarting") == 4);
  CHECK(state.actors(0).restarts() == 4);
}

TEST_CASE("an actor that waits for its next start is shown so, found when it is back, and ends when it is killed",
          "[cluster]") {
  auto cluster = embed_fragile();
  first_bad_life = 1;
  last_bad_life = 1'000;
  const auto actor = must(cluster.spawn("fragile", {}, {.name = "f", .max_restarts = -1}));
  REQUIRE(cluster.kill(actor, {.restart = true}).has_value());
  REQUIRE(eventually([&] { return must(cluster.state()).actors(0).state() == "restarting"; }));
  last_bad_life = -1;
  CHECK(must(cluster.find("f")).info().restarts() > 1);
  last_bad_life = 1'000;
  REQUIRE(cluster.kill(actor, {.restart = true}).has_value());
  REQUIRE(eventually([&] {
    const auto state = must(cluster.state());
    return state.actors_size() == 1 && state.actors(0).state() == "restarting";
  }));
  CHECK(cluster.kill("f").has_value());
  CHECK(must(cluster.state()).actors_size() == 0);
  CHECK(actor.call<Number>("life").get().error().code() == Errc::actor_died);
}

TEST_CASE("a constructor that takes longer than it may fails spawn, and the actor ends when it returns", "[cluster]") {
  auto cluster = embed();
  gate().close();
  const auto spawned = cluster.spawn("late", {}, {.gpus = 1, .spawn_timeout = 50ms});
  REQUIRE_FALSE(spawned.has_value());
  CHECK(spawned.error().code() == Errc::deadline_exceeded);
  gate().open();
  CHECK(eventually([&] {
    const auto state = must(cluster.state());
    return state.actors_size() == 0 && state.leases_size() == 0;
  }));
  // In time.
  CHECK(cluster.spawn("late", {}, {.gpus = 1, .spawn_timeout = 1min}).has_value());
}

TEST_CASE("a kill for another life brings an actor that waits for it back sooner, and does not end it", "[cluster]") {
  auto cluster = embed_fragile();
  first_bad_life = 1;
  last_bad_life = 1'000;
  const auto actor = must(cluster.spawn("fragile", {}, {.name = "f", .max_restarts = -1}));
  REQUIRE(cluster.kill(actor, {.restart = true}).has_value());
  for (int i = 0; i < 4; ++i) {
    REQUIRE(eventually([&] { return must(cluster.state()).actors(0).state() == "restarting"; }));
    CHECK(cluster.kill("f", {.restart = true}).has_value());
  }
  last_bad_life = -1;
  CHECK(cluster.kill("f", {.restart = true}).has_value());
  CHECK(must(cluster.find("f")).info().restarts() > 1);
}

TEST_CASE("an actor that is stuck in an embedded cluster is told of, and goes on when its method returns",
          "[cluster]") {
  auto cluster = embed();
  gate().close();
  const auto actor = must(cluster.spawn("accumulator", number(0), {.name = "a", .stuck_after = 1ms}));
  auto stuck = actor.call<Number>("wait", number(1), Duration::max());
  REQUIRE(eventually([&] { return must(cluster.state()).counters().count("stuck") > 0; }));
  gate().open();
  CHECK(must(stuck.get()).value() == 1);
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 1);
  const auto state = must(cluster.state({.events_from = 1}));
  const auto told = std::find_if(state.events().begin(), state.events().end(),
                                 [](const auto& event) { return event.kind() == "stuck"; });
  REQUIRE(told != state.events().end());
  CHECK(told->name() == "a");
  CHECK(told->reason().find("wait has run for ") == 0);
  CHECK(told->reason().find("a thread cannot be ended from outside") != std::string::npos);
}

TEST_CASE("a call that was refused is none that waits", "[cluster]") {
  auto cluster = embed();
  gate().close();
  const auto actor = must(cluster.spawn("accumulator", number(0), {.max_pending_calls = 1}));
  auto waiting = actor.call<Number>("wait", number(1));
  gate().await(1);
  const auto refused = actor.call<Number>("add", number(1));
  REQUIRE(eventually([&] { return refused.ready(); }));
  gate().open();
  CHECK(must(waiting.get()).value() == 1);
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 1);
}

TEST_CASE("what a program has waiting for an actor counts together, however often it has found the actor",
          "[cluster]") {
  auto cluster = embed();
  gate().close();
  const auto actor = must(cluster.spawn("accumulator", number(0), {.name = "a", .max_pending_calls = 1}));
  auto waiting = actor.call<Number>("wait", number(1));
  gate().await(1);
  const auto again = must(cluster.find("a"));
  CHECK(again.call<Number>("add", number(1)).get().error().code() == Errc::queue_full);
  gate().open();
  CHECK(must(waiting.get()).value() == 1);
  CHECK(again.call<Number>("add", number(1)).get().has_value());
}

TEST_CASE("a call that is answered is none that waits, whether its answer was taken or not", "[cluster]") {
  auto cluster = embed();
  const auto actor = must(cluster.spawn("accumulator", number(0), {.max_pending_calls = 1}));
  std::vector<Future<Number>> kept;
  for (int i = 0; i < 3; ++i) {
    kept.push_back(actor.call<Number>("add", number(1)));
    CHECK(eventually([&] { return kept.back().ready(); }));
  }
  CHECK(must(kept.back().get()).value() == 3);
}

TEST_CASE("an actor that is looked up again and again costs no memory, and all its handles hear of its end",
          "[cluster]") {
  auto cluster = embed();
  const auto actor = must(cluster.spawn("accumulator", number(0), {.name = "model"}));
  const auto kept = must(cluster.find("model"));
  for (int i = 0; i < 100; ++i)
    must(cluster.find("model"));
  const auto before = allocated_bytes();
  for (int i = 0; i < 10'000; ++i)
    must(cluster.find("model"));
  CHECK(allocated_bytes() < before + 1'000'000);
  REQUIRE(cluster.kill(actor).has_value());
  CHECK(kept.call<Number>("add", number(1)).get().error().code() == Errc::actor_died);
}
