// References to actors in messages: who gets one calls the actor.
#include "fixtures.hpp"

#include <support/catch.hpp>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// Knows others by the references that it is given.
class Correspondent : public Actor {
public:
  explicit Correspondent(Init init) : Actor(std::move(init)) {
    *in_constructor_.add_actors() = own_handle();
  }

  /// The reference to itself that it had in its constructor, and the one that it has now.
  Peers me(const google::protobuf::Empty&) const {
    auto result = in_constructor_;
    *result.add_actors() = own_handle();
    return result;
  }

  Number add(const Number& in) {
    sum_ += in.value();
    return number(sum_);
  }

  /// Adds 1 to the number of each of them.
  Result<Number> add_at(const Peers& peers) {
    double sum = 0;
    for (const auto& peer : peers.actors()) {
      GPUACTORS_LET(actor, Cluster::from(*this).find(peer));
      GPUACTORS_LET(answer, actor.call<Number>("add", number(1)).get());
      sum += answer.value();
    }
    return number(sum);
  }

private:
  Peers in_constructor_;
  double sum_ = 0;
};

Cluster embed_correspondents() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_actor<Correspondent>("correspondent", *made)
        .method("me", &Correspondent::me)
        .method("add", &Correspondent::add)
        .method("add_at", &Correspondent::add_at);
    define_task(
        "add_from_task",
        [](TaskContext& ctx, const Peers& peers) -> Result<Number> {
          GPUACTORS_LET(actor, Cluster::from(ctx).find(peers.actors(0)));
          return actor.call<Number>("add", number(10)).get();
        },
        *made);
    return made;
  }();
  return embed(registry);
}

} // namespace

TEST_CASE("an actor calls another one, without a name, by the reference in a message", "[cluster]") {
  auto cluster = embed_correspondents();
  const auto first = must(cluster.spawn("correspondent"));
  const auto second = must(cluster.spawn("correspondent"));
  const auto third = must(cluster.spawn("correspondent", {}, {.name = "third"}));
  Peers peers;
  *peers.add_actors() = second.to_message();
  *peers.add_actors() = third.to_message();
  CHECK(peers.actors(1).name() == "third");
  CHECK(peers.actors(1).type() == "correspondent");
  CHECK(must(first.call<Number>("add_at", peers).get()).value() == 2);
  CHECK(must(cluster.submit<Number>("add_from_task", peers).get()).value() == 11);
  CHECK(must(second.call<Number>("add", number(0)).get()).value() == 11);
}

TEST_CASE("an actor has a reference to itself, the same as others have", "[cluster]") {
  auto cluster = embed_correspondents();
  const auto actor = must(cluster.spawn("correspondent", {}, {.name = "me", .max_restarts = 1}));
  const auto same = [&] {
    const auto own = must(actor.call<Peers>("me").get());
    REQUIRE(own.actors_size() == 2);
    for (const auto& handle : own.actors())
      CHECK(handle.SerializeAsString() == actor.to_message().SerializeAsString());
    CHECK(must(cluster.find(own.actors(0))).id() == actor.id());
    CHECK(must(cluster.find(own.actors(0))).to_message().SerializeAsString() == actor.to_message().SerializeAsString());
  };
  same();
  REQUIRE(cluster.kill(actor, {.restart = true}).has_value());
  same();
}

TEST_CASE("a reference to an actor that has ended is not found, and says what it was", "[cluster]") {
  auto cluster = embed_correspondents();
  const auto actor = must(cluster.spawn("correspondent", {}, {.name = "short"}));
  const auto handle = actor.to_message();
  REQUIRE(cluster.kill(actor).has_value());
  CHECK(cluster.find(handle).error() == Error{Errc::not_found, "actor short (correspondent) has ended: it was killed"});
  // Another one of that name is not it.
  const auto next = must(cluster.spawn("correspondent", {}, {.name = "short"}));
  CHECK(cluster.find(handle).error().code() == Errc::not_found);
}

TEST_CASE("a reference from another cluster finds nobody there", "[cluster]") {
  auto here = embed_correspondents();
  auto there = embed_correspondents();
  const auto actor = must(here.spawn("correspondent"));
  const auto same_number = must(there.spawn("correspondent"));
  REQUIRE(actor.id() == same_number.id());
  const auto found = there.find(actor.to_message());
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code() == Errc::not_found);
  CHECK(found.error().message().find("spawned in another cluster") != std::string::npos);
  // Nor does it end who has its number there.
  for (const auto& killed : {there.kill(actor), there.kill(actor.to_message())})
    CHECK(code_of(killed) == Errc::not_found);
  CHECK(must(there.find(same_number.to_message())).id() == same_number.id());
  CHECK(here.kill(actor.to_message()).has_value());
  CHECK(code_of(here.kill(actor.to_message())) == Errc::not_found);
}

TEST_CASE("an empty reference is an empty message, which names nobody", "[cluster]") {
  auto cluster = embed_correspondents();
  const auto handle = ActorRef{}.to_message();
  CHECK(handle.ByteSizeLong() == 0);
  CHECK(cluster.find(handle).error() == Error{Errc::invalid_argument, "the reference to an actor is empty"});
}

TEST_CASE("an actor is found, awaited and ended by all that tells it from others", "[cluster]") {
  auto cluster = embed_correspondents();
  const auto lives = [&](const ActorKey& key, const ActorRef& actor) {
    CHECK(must(cluster.find(key)).id() == actor.id());
    auto ended = cluster.when_ended(key);
    REQUIRE(cluster.kill(key).has_value());
    CHECK(must(ended.get()).id == actor.id());
    CHECK(must(cluster.when_ended(key).get()).id == actor.id());
  };
  const auto spawn = [&] { return must(cluster.spawn("correspondent", {}, {.name = "a", .name_space = "x"})); };
  const auto named = spawn();
  lives({"a", "x"}, named);
  const auto held = spawn();
  lives(held, held);
  const auto referred = spawn();
  lives(referred.to_message(), referred);
  const auto numbered = spawn();
  lives(numbered.id(), numbered);
  for (const auto& nobody : {ActorKey{""}, ActorKey{ActorRef{}}, ActorKey{ActorId{}}}) {
    CHECK(code_of(cluster.find(nobody)) == Errc::invalid_argument);
    CHECK(code_of(cluster.kill(nobody)) == Errc::invalid_argument);
    CHECK(code_of(cluster.when_ended(nobody).get()) == Errc::invalid_argument);
  }
}

TEST_CASE("a reference to an actor that is not ready is waited for no longer than said", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto starting = cluster.spawn_async("late", {}, {.name = "late"});
  gate().await(1);
  v1::ActorHandle handle;
  handle.set_id(must(cluster.state()).actors(0).id());
  handle.set_type("late");
  const auto found = cluster.find(handle, 10ms);
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code() == Errc::deadline_exceeded);
  gate().open();
  CHECK(must(cluster.find(handle)).id() == must(starting.get()).id());
}
