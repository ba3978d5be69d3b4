// Actors and groups that end with the object that owns them.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <future>
#include <optional>
#include <utility>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

bool all_free(Cluster& cluster) {
  const auto state = must(cluster.state());
  return state.leases_size() == 0 && state.actors_size() == 0 && state.groups_size() == 0;
}

} // namespace

TEST_CASE("an actor ends with the object that owns it", "[cluster]") {
  auto cluster = embed();
  std::optional<ActorRef> seen;
  {
    const auto owned = cluster.own(must(cluster.spawn("fraction", {}, {.gpus = 0.5, .max_restarts = 3})));
    seen = *owned;
    CHECK(owned->call<Names>("ids").get().has_value());
  }
  CHECK(eventually([&] { return all_free(cluster); }));
  CHECK(seen->call<Names>("ids").get().error().code() == Errc::actor_died);
}

TEST_CASE("what is moved from owns nothing, and what is moved to ends what it had", "[cluster]") {
  auto cluster = embed();
  auto first = cluster.own(must(cluster.spawn("fraction", {}, {.gpus = 0.25})));
  auto second = cluster.own(must(cluster.spawn("fraction", {}, {.gpus = 0.25})));
  const auto kept = first->id();
  const auto ended = second->id();
  second = std::move(first);
  CHECK_FALSE(static_cast<bool>(first));
  CHECK(second->id() == kept);
  CHECK(eventually([&] { return must(cluster.state()).actors_size() == 1; }));
  CHECK(must(cluster.state()).actors(0).id() == kept.value());
  CHECK(kept != ended);
  first.reset();
  second.reset();
  CHECK(eventually([&] { return all_free(cluster); }));
}

TEST_CASE("what is released lives on", "[cluster]") {
  auto cluster = embed();
  std::optional<ActorRef> released;
  {
    auto owned = cluster.own(must(cluster.spawn("fraction", {}, {.gpus = 0.5})));
    released = owned.release();
    CHECK_FALSE(static_cast<bool>(owned));
  }
  CHECK(released->call<Names>("ids").get().has_value());
  must(cluster.kill(*released));
}

TEST_CASE("a group ends with the object that owns it, with what runs in it", "[cluster]") {
  auto cluster = embed();
  {
    const auto group = cluster.own(must(cluster.create_group({{.gpus = 1}})));
    must(cluster.spawn("fraction", {}, {.gpus = 0.5, .group = group->id}));
    CHECK_FALSE(all_free(cluster));
  }
  CHECK(eventually([&] { return all_free(cluster); }));
}

TEST_CASE("what is still being made can be owned already, and ends with its future", "[cluster]") {
  auto cluster = embed();
  const auto spawn = [&] { return cluster.own(cluster.spawn_async("fraction", {}, {.gpus = 0.5})); };
  {
    const auto owned = must(spawn().get());
    CHECK(owned->call<Names>("ids").get().has_value());
  }
  CHECK(eventually([&] { return all_free(cluster); }));
  // Nobody takes it: before it is there, and after.
  static_cast<void>(spawn());
  {
    const auto left = spawn();
    REQUIRE(left.wait(std::chrono::seconds{20}));
    CHECK(must(cluster.state()).actors_size() > 0);
  }
  CHECK(eventually([&] { return all_free(cluster); }));
  // Groups, too.
  {
    const auto group = must(cluster.own(cluster.create_group_async({{.gpus = 1}})).get());
    CHECK_FALSE(group->bundles.empty());
    // What waits behind it is withdrawn.
    auto waiting = spawn();
    REQUIRE(eventually([&] { return must(cluster.state()).queue_size() == 1; }));
    waiting.cancel();
    CHECK(code_of(waiting.get()) == Errc::cancelled);
    CHECK(eventually([&] { return must(cluster.state()).queue_size() == 0; }));
    // So is what nobody wants any more.
    {
      const auto unwanted = spawn();
      REQUIRE(eventually([&] { return must(cluster.state()).queue_size() == 1; }));
    }
    CHECK(eventually([&] { return must(cluster.state()).queue_size() == 0; }));
  }
  CHECK(eventually([&] { return all_free(cluster); }));
  CHECK(code_of(cluster.own(cluster.spawn_async("fractoin")).get()) == Errc::not_found);
  // It needs no thread of the cluster's.
  std::promise<bool> spawned;
  cluster.submit<Number>("pid").then([&](const Result<Number>&) { spawned.set_value(spawn().get().has_value()); });
  CHECK(spawned.get_future().get());
  CHECK(eventually([&] { return all_free(cluster); }));
}

TEST_CASE("an owner that outlives its cluster, or owns nothing, ends quietly", "[cluster]") {
  OwnedActor actor;
  OwnedGroup group;
  {
    auto cluster = embed();
    actor = cluster.own(must(cluster.spawn("fraction", {}, {.gpus = 0.5})));
    group = cluster.own(must(cluster.create_group({{.gpus = 0.25}})));
    CHECK(static_cast<bool>(actor));
  }
  const OwnedActor none;
  CHECK_FALSE(static_cast<bool>(none));
}
