// What a broker that starts again makes of what it knows, before the nodes that know more are back, or without them.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

using namespace broker_test;

namespace {

/// What somebody is told who asks for an actor.
using Told = std::shared_ptr<std::optional<Result<FoundActor>>>;

BrokerAnswer<FoundActor> write_down(const Told& told) {
  return BrokerAnswer<FoundActor>{[told](Result<FoundActor> result) { *told = std::move(result); }};
}

Told ask_for_svc(Scene& scene, bool get_if_exists) {
  auto message = Scene::actor_of(1, "svc");
  message.set_client_request(++scene.last_request);
  message.set_get_if_exists(get_if_exists);
  auto told = std::make_shared<std::optional<Result<FoundActor>>>();
  scene.core.spawn_actor(message, {}, {}, write_down(told));
  return told;
}

/// The number of the actor that has the name; 0: nobody.
std::uint64_t has_name(Scene& scene, const std::string& name) {
  v1::FindActor message;
  message.set_name(name);
  auto told = std::make_shared<std::optional<Result<FoundActor>>>();
  scene.core.find(message, write_down(told));
  return *told && **told ? (**told)->info.id() : 0;
}

/// "svc", which an earlier broker without a store has started on n0.
v1::StartActor svc_of_before() {
  Scene before{{.last_id = 1'000}};
  before.greet(1);
  before.last_request = 100; // no request of those who ask later
  before.add_node();
  return before.spawn(1, "svc");
}

BrokerOptions after_it() {
  return {.last_id = 1U << 30U, .settle = 1s};
}

struct Kept {
  std::shared_ptr<std::optional<Result<void>>> answer = std::make_shared<std::optional<Result<void>>>();

  BrokerAnswer<void> operator()() const {
    return BrokerAnswer<void>{[to = answer](Result<void> result) { *to = std::move(result); }};
  }

  [[nodiscard]] std::string told() const {
    return !*answer ? "nothing" : **answer ? "done" : std::string{to_string((**answer).error().code())};
  }
};

} // namespace

// -- names without a store -------------------------------------------------------------------------

TEST_CASE("who joins an actor or makes it gets the one that a node brings to a broker without a store",
          "[broker][core]") {
  const auto svc = svc_of_before();
  Scene scene{after_it()};
  scene.greet(1);
  scene.add_node("n1", 8);
  const auto told = ask_for_svc(scene, true);
  CHECK(scene.world.starts.empty());
  CHECK_FALSE(*told);
  const bool comes = GENERATE(true, false);
  if (comes)
    scene.add_node({begun(svc)});
  scene.run(2s);
  CHECK(scene.world.starts.size() == (comes ? 0 : 1));
  if (comes) {
    REQUIRE(*told);
    CHECK(must(**told).info.id() == svc.actor());
  }
}

TEST_CASE("a request for a name that a node may bring back can be repeated and withdrawn", "[broker][core]") {
  Scene scene{after_it()};
  scene.greet(1);
  scene.add_node("n1", 8);
  const auto first = ask_for_svc(scene, true);
  --scene.last_request;
  const auto again = ask_for_svc(scene, true);
  CHECK(code_of(first->value()) == Errc::cancelled);
  CHECK_FALSE(*again);
  v1::Withdraw message;
  message.set_client(1);
  message.set_client_request(scene.last_request);
  scene.core.withdraw(message, BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  CHECK(code_of(again->value()) == Errc::cancelled);
  scene.run(2s);
  CHECK(scene.world.starts.empty());
}

TEST_CASE("an actor that its node brings back in time keeps its name, and another one of that name ends",
          "[broker][core]") {
  const auto svc = svc_of_before();
  Scene scene{after_it()};
  scene.greet(1);
  const bool is_there = GENERATE(true, false);
  if (is_there)
    scene.add_node("n1", 8);
  const auto told = ask_for_svc(scene, false);
  if (is_there)
    scene.start(scene.world.starts.back());
  scene.add_node({begun(svc)});
  CHECK(has_name(scene, "svc") == svc.actor());
  if (is_there) {
    REQUIRE(scene.world.ends.size() == 1);
    CHECK(scene.world.ends.back().lease() == scene.world.starts.back().lease().id());
    scene.end(scene.world.starts.back());
  } else {
    CHECK(code_of(told->value()) == Errc::already_exists);
  }
  scene.run(2s);
  const auto state = scene.core.state({});
  REQUIRE(state.actors_size() == 1);
  CHECK(state.actors(0).id() == svc.actor());
  CHECK(has_name(scene, "svc") == svc.actor());
}

TEST_CASE("an actor whose name was given to another one, when it was not waited for any more, ends", "[broker][core]") {
  const auto svc = svc_of_before();
  Scene scene{after_it()};
  scene.greet(1);
  scene.add_node("n1", 8);
  scene.run(2s);
  static_cast<void>(ask_for_svc(scene, true));
  const auto other = scene.world.starts.back();
  scene.start(other);
  // Also if it is just between two lives.
  if (GENERATE(false, true)) {
    scene.end(other);
    scene.end(scene.world.starts.back());
  }
  scene.add_node({begun(svc)});
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == svc.lease().id());
  scene.end(svc);
  scene.run(2s);
  if (scene.world.starts.back().lease().id() != other.lease().id())
    scene.start(scene.world.starts.back());
  CHECK(scene.core.state({}).actors_size() == 1);
  CHECK(has_name(scene, "svc") == other.actor());
}

TEST_CASE("of two actors of one name that nodes bring, the one that was given it last keeps it", "[broker][core]") {
  const auto earlier = svc_of_before();
  auto later = earlier;
  later.set_actor(earlier.actor() + 1);
  later.set_client_request(earlier.client_request() + 1);
  later.mutable_lease()->set_id(earlier.lease().id() + 1);
  later.mutable_lease()->set_request(earlier.lease().request() + 1);
  later.mutable_lease()->set_node("n1");
  Scene scene{after_it()};
  scene.greet(1);
  const bool is_first = GENERATE(true, false);
  if (is_first)
    scene.add_node("n1", 8, {begun(later)});
  scene.add_node({begun(earlier)});
  if (!is_first)
    scene.add_node("n1", 8, {begun(later)});
  CHECK(has_name(scene, "svc") == later.actor());
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == earlier.lease().id());
}

// -- what the store knows --------------------------------------------------------------------------

TEST_CASE("a broker that waits for nobody knows all the same what its store has", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor order;
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node();
    order = first.spawn(1, "a");
    v1::SetQuota quota;
    quota.set_owner("alice");
    quota.set_gpu_units(5'000);
    must(first.core.set_quota(quota));
    first.core.finish();
  }
  Scene second{{.last_id = 1U << 30U, .store = store}};
  CHECK(second.core.state({}).quotas_size() == 1);
  REQUIRE(second.core.state({}).actors_size() == 1);
  CHECK(second.core.state({}).actors(0).state() == "waiting");
  second.add_node("n1", 8);
  REQUIRE(second.world.starts.size() == 1);
  CHECK(second.world.starts.front().actor() == order.actor());
}

TEST_CASE("a broker whose node is late knows the latest life there, and no end of an earlier one counts",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor first_life;
  v1::StartActor second_life;
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node("n1", 7);
    auto message = Scene::actor_of(1, "a");
    message.mutable_request()->set_cpu_units(10'000);
    first_life = first.spawn(message);
    first.core.peer_down(first.world.last_peer);
    first.add_node("n2", 8);
    first.run(1min);
    REQUIRE(first.world.starts.size() == 2);
    second_life = first.world.starts.back();
    first.start(second_life);
    first.core.finish();
  }
  Scene scene{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  scene.run(2s);
  REQUIRE(scene.core.state({}).actors_size() == 1);
  CHECK(scene.core.state({}).actors(0).state() == "waiting");
  v1::RegisterNode back;
  back.mutable_node()->set_name("n1"); // without room for it
  back.set_agent(7);
  auto& own = *back.add_own_ends();
  own.set_actor(first_life.actor());
  own.mutable_end()->set_lease(first_life.lease().id());
  own.mutable_end()->set_epoch(first_life.lease().epoch());
  own.mutable_end()->set_by_itself(true);
  own.mutable_end()->set_actor(first_life.actor());
  scene.core.add_node(back, std::make_shared<Somebody>(),
                      BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  REQUIRE(scene.core.state({}).actors_size() == 1);
  // And when its own node comes, it goes on there.
  scene.add_node("n2", 8, {begun(second_life)});
  CHECK(scene.world.ends.empty());
  REQUIRE(scene.core.state({}).actors_size() == 1);
  CHECK(scene.core.state({}).actors(0).lease().id() == second_life.lease().id());
}

TEST_CASE("the own end of an actor that the broker waits for is not forgotten for those of others", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor order;
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node();
    order = first.spawn(1, "a");
    first.core.finish();
  }
  constexpr std::uint64_t last_id = 1U << 30U;
  Scene scene{{.last_id = last_id, .settle = 1s, .store = store}};
  const auto add_end = [](v1::RegisterNode& to, std::uint64_t actor, std::uint64_t lease) {
    auto& own = *to.add_own_ends();
    own.set_actor(actor);
    own.mutable_end()->set_lease(lease);
    own.mutable_end()->set_epoch(lease);
    own.mutable_end()->set_by_itself(true);
    own.mutable_end()->set_actor(actor);
  };
  v1::RegisterNode node;
  node.mutable_node()->set_name("n0");
  node.mutable_node()->set_cpu_units(100'000);
  node.set_agent(7);
  add_end(node, order.actor(), order.lease().id());
  for (std::uint64_t number = 0; number <= limits::buried_actors; ++number)
    add_end(node, last_id - number, last_id - number);
  scene.core.add_node(node, std::make_shared<Somebody>(),
                      BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  scene.run(2s);
  CHECK(scene.core.state({}).actors_size() == 0);
  CHECK(scene.world.starts.empty());
}

// -- what the store does not have ------------------------------------------------------------------

TEST_CASE("who is told that something has ended, or was set, is told so when no restart can undo it",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene scene{{.store = store}};
  scene.greet(1);
  scene.add_node();
  scene.ask([] {
    auto message = Scene::actor_of(1, "a");
    message.mutable_request()->set_gpu_units(10'000);
    message.mutable_request()->set_wait_for_nodes(true);
    return message;
  }());
  v1::ReleaseGroup release;
  release.set_id(scene.add_group(true));
  scene.run(0s);
  const bool is_full = GENERATE(false, true);
  store->is_full = is_full;
  const Kept killed;
  const Kept removed;
  const Kept drained;
  const Kept set;
  v1::KillActor kill;
  kill.set_name("a");
  kill.set_no_restart(true);
  scene.core.kill(kill, {}, killed());
  scene.core.release_group(release, {}, removed());
  v1::DrainNode drain;
  drain.set_name("n0");
  scene.core.answer_when_kept(drained(), scene.core.drain(drain));
  v1::SetQuota quota;
  quota.set_owner("alice");
  quota.set_gpu_units(5'000);
  scene.core.answer_when_kept(set(), scene.core.set_quota(quota));
  for (const auto* one : {&killed, &removed, &drained, &set})
    CHECK(one->told() == "nothing");
  CHECK(must(store->load(StateSection::actors)).size() == 1);
  scene.run(0s);
  for (const auto* one : {&killed, &removed, &drained, &set})
    CHECK(one->told() == (is_full ? "unavailable" : "done"));
  CHECK(must(store->load(StateSection::actors)).size() == (is_full ? 1 : 0));
}

TEST_CASE("a refusal waits for no disk, nor does an answer of a broker that keeps nothing", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  store->is_full = true;
  const bool keeps = GENERATE(true, false);
  Scene scene{{.store = keeps ? store : nullptr}};
  scene.greet(1);
  scene.add_node();
  scene.ask(Scene::actor_of(1, "a"));
  const Kept killed;
  v1::KillActor kill;
  kill.set_name(keeps ? "b" : "a");
  kill.set_no_restart(true);
  scene.core.kill(kill, {}, killed());
  if (!keeps)
    scene.end(scene.world.starts.back());
  CHECK(killed.told() == (keeps ? "not_found" : "done"));
}
