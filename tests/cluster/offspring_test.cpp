// What actors and tasks spawn ends with them, unless it is detached.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <stdexcept>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

class Child : public Actor {
public:
  Child(Init init, const google::protobuf::Empty&) : Actor(std::move(init)) {
    // nop
  }

  Number restarts(const google::protobuf::Empty&) {
    return number(Actor::restarts());
  }
};

/// Has a child and a group in its constructor.
class Mother : public Actor {
public:
  Mother(Init init, const Text& how) : Actor(std::move(init)) {
    auto cluster = Cluster::from(*this);
    must(cluster.spawn("child", {}, {.gpus = 0.25, .name = "child"}));
    must(cluster.create_group({{.gpus = 0.25}}, {.name = "of the mother"}));
    if (how.text() == "fails")
      throw std::runtime_error("there is nothing to do");
  }

  void finish(const google::protobuf::Empty&) {
    end("it is done");
  }
};

/// Spawns an actor, and returns the reference to it. @param how "detached", or anything else.
Result<v1::ActorHandle> spawn_child(TaskContext& ctx, const Text& how) {
  auto cluster = Cluster::from(ctx);
  GPUACTORS_LET(child, cluster.spawn("child", {}, {.detached = how.text() == "detached"}));
  // It lives as long as the task does.
  GPUACTORS_TRY(child.call<Number>("restarts").get());
  return child.to_message();
}

/// Spawns an actor, and answers with what that answers.
Future<Number> ask_child(TaskContext& ctx, const Text&) {
  auto cluster = Cluster::from(ctx);
  auto child = must(cluster.spawn("child"));
  return child.call<Number>("restarts");
}

Cluster embed_family() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_actor<Child>("child", *made).method("restarts", &Child::restarts);
    define_actor<Mother, Text>("mother", *made).method("finish", &Mother::finish);
    define_task("spawn_child", spawn_child, *made);
    define_task("ask_child", ask_child, *made);
    return made;
  }();
  return embed(registry);
}

/// Actors and groups, as "child of mother".
std::vector<std::string> alive(Cluster& cluster) {
  std::vector<std::string> result;
  const auto state = must(cluster.state());
  for (const auto& actor : state.actors())
    result.push_back((actor.name().empty() ? actor.type() : actor.name())
                     + (actor.spawned_by().empty() ? "" : " of " + actor.spawned_by()));
  for (const auto& group : state.groups())
    result.push_back(group.name());
  return result;
}

using Family = std::vector<std::string>;

} // namespace

TEST_CASE("what an actor has spawned ends with it, however it ends", "[cluster]") {
  auto cluster = embed_family();
  const auto mother = must(cluster.spawn("mother", text(""), {.gpus = 0.25, .name = "mother"}));
  auto child = must(cluster.find("child"));
  CHECK(alive(cluster) == Family{"mother", "child of mother", "of the mother"});
  SECTION("by a kill") {
    must(cluster.kill(mother));
  }
  SECTION("by itself") {
    must(mother.call("finish").get());
  }
  CHECK(eventually([&] { return alive(cluster).empty(); }));
  const auto late = child.call<Number>("restarts").get();
  REQUIRE_FALSE(late);
  CHECK(late.error().code() == Errc::actor_died);
  CHECK(late.error().message().find("actor mother, which has spawned it, has ended") != std::string::npos);
  CHECK(must(cluster.state()).leases_size() == 0);
}

TEST_CASE("an actor without a name is ended by its number", "[cluster]") {
  auto cluster = embed_family();
  const auto child = must(cluster.spawn("child"));
  CHECK(cluster.kill(ActorId{}).error().code() == Errc::invalid_argument);
  CHECK(cluster.kill(child.id()));
  CHECK(alive(cluster).empty());
  CHECK(cluster.kill(child.id()).error().code() == Errc::not_found);
}

TEST_CASE("what a constructor has spawned before it failed ends", "[cluster]") {
  auto cluster = embed_family();
  CHECK_FALSE(cluster.spawn("mother", text("fails"), {.gpus = 0.25}));
  CHECK(eventually([&] { return alive(cluster).empty(); }));
}

TEST_CASE("each life of an actor has children of its own, under the same name", "[cluster]") {
  auto cluster = embed_family();
  const auto mother = must(cluster.spawn("mother", text(""), {.gpus = 0.25, .name = "mother", .max_restarts = 3}));
  for (int life = 1; life <= 3; ++life) {
    const auto before = must(cluster.find("child")).id();
    must(cluster.kill(mother, {.restart = true}));
    CHECK(eventually([&] {
      const auto now = cluster.find("child", 5s);
      return now && now->id() != before && alive(cluster) == Family{"mother", "child of mother", "of the mother"};
    }));
  }
}

TEST_CASE("what a task has spawned ends with the task", "[cluster]") {
  auto cluster = embed_family();
  const auto child = must(cluster.submit<v1::ActorHandle>("spawn_child", text("")).get());
  CHECK(eventually([&] { return alive(cluster).empty(); }));
  const auto gone = cluster.find(child);
  REQUIRE_FALSE(gone);
  CHECK(gone.error().message().find("the task, which has spawned it, has ended") != std::string::npos);
}

TEST_CASE("what a task has spawned works for the answer that it has promised, and then ends", "[cluster]") {
  auto cluster = embed_family();
  for (int i = 0; i < 20; ++i)
    CHECK(must(cluster.submit<Number>("ask_child", text("")).get()).value() == 0);
  CHECK(eventually([&] { return alive(cluster).empty(); }));
}

TEST_CASE("what a task has spawned to be detached outlives it", "[cluster]") {
  auto cluster = embed_family();
  const auto handle = must(cluster.submit<v1::ActorHandle>("spawn_child", text("detached")).get());
  // Whatever the next task leaves behind is another one's.
  must(cluster.submit<v1::ActorHandle>("spawn_child", text("")).get());
  CHECK(eventually([&] { return alive(cluster) == Family{"child"}; }));
  const auto child = must(cluster.find(handle));
  CHECK(must(child.call<Number>("restarts").get()).value() == 0);
  must(cluster.kill(child));
}
