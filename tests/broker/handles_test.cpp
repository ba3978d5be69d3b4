// Looking actors up by the references that came in messages.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

using namespace broker_test;

namespace {

v1::ActorHandle handle_of(const v1::StartActor& order) {
  v1::ActorHandle handle;
  handle.set_id(order.actor());
  handle.set_name(order.spec().name());
  handle.set_type(order.spec().type());
  handle.set_origin(order.spec().origin());
  return handle;
}

/// An actor without a name, which ends with its client.
v1::SpawnActor nameless(std::uint64_t client, std::uint64_t origin) {
  auto message = Scene::actor_of(client, "");
  message.mutable_spec()->set_detached(false);
  message.mutable_spec()->set_origin(origin);
  return message;
}

/// The answer, as far as there is one.
using Found = std::shared_ptr<std::optional<Result<FoundActor>>>;

Found ask(Scene& scene, const v1::FindActor& message) {
  auto found = std::make_shared<std::optional<Result<FoundActor>>>();
  scene.core.find(message,
                  BrokerAnswer<FoundActor>{[found](Result<FoundActor> result) { *found = std::move(result); }});
  return found;
}

Found look_up(Scene& scene, const v1::ActorHandle& handle) {
  v1::FindActor message;
  message.set_id(handle.id());
  *message.mutable_handle() = handle;
  return ask(scene, message);
}

/// Has the actor killed for good, and its node say that it has ended.
void kill(Scene& scene, const v1::StartActor& order) {
  v1::KillActor message;
  message.set_id(order.actor());
  message.set_no_restart(true);
  scene.core.kill(message, {}, BrokerAnswer<void>{[](const Result<void>&) {}});
  scene.end(order);
}

/// Asks for the end of the actor.
Found wait_for_end(Scene& scene, const v1::ActorHandle& handle, std::uint64_t client = 1) {
  v1::FindActor message;
  message.set_id(handle.id());
  *message.mutable_handle() = handle;
  message.set_client(client);
  message.set_until_ended(true);
  return ask(scene, message);
}

/// How it has ended, as the answer says.
Error end_in(const Found& found) {
  REQUIRE(found->has_value());
  const auto info = must(**found).info;
  CHECK(info.state() == "ended");
  return {errc_from_number(static_cast<std::uint8_t>(info.end_error())), info.end_reason()};
}

Error error_of(const Found& found) {
  REQUIRE(found->has_value());
  REQUIRE_FALSE((**found).has_value());
  return (**found).error();
}

} // namespace

TEST_CASE("a reference finds an actor without a name, and waits while it is started again", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto first = scene.spawn(nameless(1, 77));
  const auto found = look_up(scene, handle_of(first));
  REQUIRE(found->has_value());
  CHECK(must(**found).info.id() == first.actor());
  CHECK(must(**found).info.origin() == 77);
  scene.end(first);
  const auto later = look_up(scene, handle_of(first));
  CHECK_FALSE(later->has_value());
  REQUIRE(scene.world.starts.back().restarts() == 1);
  scene.start(scene.world.starts.back());
  REQUIRE(later->has_value());
  CHECK(must(**later).info.restarts() == 1);
}

TEST_CASE("a reference to an actor that has ended says what it was and how it ended", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  auto order = scene.spawn(1, "a", {}, 0);
  scene.end(order);
  CHECK(error_of(look_up(scene, handle_of(order)))
        == Error{Errc::not_found, "actor a (T) has ended: the actor has ended by itself"});
  // The broker remembers so many ends.
  auto long_ago = handle_of(order);
  long_ago.set_id(order.actor() + 1'000);
  CHECK(error_of(look_up(scene, long_ago))
        == Error{Errc::not_found,
                 "actor a (T) is not in this cluster: it has ended long ago, or was spawned in another cluster"});
}

TEST_CASE("a reference of another cluster finds nobody, whatever number it has", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(nameless(1, 77));
  auto others = handle_of(order);
  others.set_origin(78);
  CHECK(code_of(**look_up(scene, others)) == Errc::not_found);
  CHECK(says(error_of(look_up(scene, others)), "spawned in another cluster"));
  // Also when the one of that number here is gone.
  kill(scene, order);
  CHECK(says(error_of(look_up(scene, others)), "spawned in another cluster"));
  CHECK(says(error_of(look_up(scene, handle_of(order))), "it was killed"));
  // A program of an earlier release has drawn no origin.
  const auto old = scene.spawn(nameless(1, 0));
  auto handle = handle_of(old);
  CHECK(must(**look_up(scene, handle)).info.id() == old.actor());
  handle.set_origin(5);
  CHECK(must(**look_up(scene, handle)).info.id() == old.actor());
}

TEST_CASE("a reference is good at a broker that was restarted, when the actor's node is back", "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.add_node();
  const auto order = earlier.spawn(nameless(1, 77));
  auto gone = handle_of(order);
  gone.set_id(order.actor() + 1);
  Scene scene{{.last_id = 1'000, .settle = 5s}};
  scene.greet(1);
  const auto found = look_up(scene, handle_of(order));
  const auto missing = look_up(scene, gone);
  auto others = handle_of(order);
  others.set_origin(78);
  const auto other = look_up(scene, others);
  CHECK_FALSE(found->has_value());
  scene.add_node({begun(order)});
  REQUIRE(found->has_value());
  CHECK(must(**found).info.id() == order.actor());
  CHECK(error_of(other).code() == Errc::not_found);
  CHECK_FALSE(missing->has_value()); // another node may bring it
  scene.run(6s);
  CHECK(error_of(missing).code() == Errc::not_found);
}

TEST_CASE("who was given a reference keeps the actor when the request for it is withdrawn", "[broker][core]") {
  // As with names: somebody else uses it.
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(nameless(1, 77));
  look_up(scene, handle_of(order));
  v1::Withdraw withdrawal;
  withdrawal.set_client(1);
  withdrawal.set_client_request(order.client_request());
  scene.core.withdraw(withdrawal, BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  CHECK(scene.world.ends.empty());
}

// -- waiting for the end --------------------------------------------------------------------------

TEST_CASE("who waits for an actor's end is answered after its last life", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  auto order = scene.spawn(1, "a", {}, 1);
  const auto handle = handle_of(order);
  const auto first = wait_for_end(scene, handle);
  scene.end(order);
  CHECK_FALSE(first->has_value());
  const auto second = wait_for_end(scene, handle); // it is being started again
  scene.start(scene.world.starts.back());
  CHECK_FALSE(second->has_value());
  scene.end(scene.world.starts.back());
  const Error why{Errc::actor_died, "the actor has ended by itself"};
  CHECK(end_in(first) == why);
  CHECK(end_in(second) == why);
  CHECK(must(**first).info.restarts() == 1);
  CHECK(end_in(wait_for_end(scene, handle)) == why);
  // Nobody has been given that number.
  auto nobody = handle;
  nobody.set_id(order.actor() + 1'000);
  CHECK(error_of(wait_for_end(scene, nobody)).code() == Errc::not_found);
  // By its name, too.
  v1::FindActor by_name;
  by_name.set_client(1);
  by_name.set_until_ended(true);
  by_name.set_name("a");
  CHECK(end_in(ask(scene, by_name)) == why);
  by_name.set_name("b");
  CHECK(error_of(ask(scene, by_name)).code() == Errc::not_found);
  by_name.set_name("a");
  by_name.set_only_who(true);
  CHECK(end_in(ask(scene, by_name)) == why);
  // Waiting for an end makes nobody a user of the actor.
  const auto other = scene.spawn(nameless(1, 77));
  const auto withdrawn = wait_for_end(scene, handle_of(other));
  v1::Withdraw withdrawal;
  withdrawal.set_client(1);
  withdrawal.set_client_request(other.client_request());
  scene.core.withdraw(withdrawal, BrokerAnswer<void>{[](const Result<void>&) {}});
  scene.end(other);
  CHECK(end_in(withdrawn) == Error{Errc::actor_died, "the request for it was withdrawn"});
}

TEST_CASE("the end of an actor of another cluster is not taken for that of the one with its number", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(nameless(1, 77));
  auto others = handle_of(order);
  others.set_origin(78);
  CHECK(error_of(wait_for_end(scene, others)).code() == Errc::not_found);
  kill(scene, order);
  CHECK(says(error_of(wait_for_end(scene, others)), "spawned in another cluster"));
}

TEST_CASE("a client that waits for an end asks again on its next connection, and waits once", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.greet(2);
  scene.add_node();
  const auto order = scene.spawn(1, "a", {}, 0);
  const auto lost = wait_for_end(scene, handle_of(order), 2);
  scene.greet(2); // on another connection
  const auto again = wait_for_end(scene, handle_of(order), 2);
  const auto other = wait_for_end(scene, handle_of(order));
  scene.end(order);
  CHECK_FALSE(lost->has_value());
  CHECK(end_in(again).code() == Errc::actor_died);
  CHECK(end_in(other).code() == Errc::actor_died);
}

TEST_CASE("of ends that the broker does not remember it says that they were", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto first = scene.spawn(nameless(1, 77));
  kill(scene, first);
  for (std::size_t i = 0; i < limits::ended_actors; ++i)
    kill(scene, scene.spawn(nameless(1, 77)));
  CHECK(end_in(wait_for_end(scene, handle_of(first))).code() == Errc::not_found);
}

TEST_CASE("only clients that are there wait for ends", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(1, "a");
  CHECK(error_of(wait_for_end(scene, handle_of(order), 5)).code() == Errc::unavailable);
  CHECK(error_of(wait_for_end(scene, handle_of(order), 0)).code() == Errc::unavailable);
}

TEST_CASE("a client that is gone waits for nothing", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.greet(2);
  const auto peer = scene.world.last_peer;
  scene.add_node();
  const auto order = scene.spawn(1, "a", {}, 0);
  const auto waits = wait_for_end(scene, handle_of(order), 2);
  scene.core.peer_down(peer);
  CHECK(error_of(waits).code() == Errc::deadline_exceeded);
}

TEST_CASE("who waits for an end at a broker that was restarted hears of it, if it is known then", "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.add_node();
  const auto order = earlier.spawn(nameless(1, 77));
  auto gone = handle_of(order);
  gone.set_id(order.actor() + 1);
  Scene scene{{.last_id = 1'000, .settle = 5s}};
  scene.greet(1);
  scene.greet(2);
  const auto back = wait_for_end(scene, handle_of(order));
  const auto missing = wait_for_end(scene, gone);
  const auto lost = wait_for_end(scene, gone, 2);
  scene.greet(2); // on another connection, before all are back
  scene.add_node({begun(order)});
  scene.run(6s);
  // A late node may still bring that one.
  CHECK(error_of(missing).code() == Errc::not_found);
  CHECK_FALSE(lost->has_value());
  CHECK_FALSE(back->has_value());
  kill(scene, order);
  CHECK(end_in(back) == Error{Errc::actor_died, "it was killed"});
}

TEST_CASE("who asks only whose a name is hears it at once, whatever the actor does, and is no user of it",
          "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  v1::FindActor message;
  message.set_client(1);
  message.set_name("a");
  message.set_until_ended(true);
  message.set_only_who(true);
  CHECK(error_of(ask(scene, message)).code() == Errc::not_found);
  auto wanted = Scene::actor_of(1, "a");
  wanted.mutable_spec()->set_origin(77);
  wanted.mutable_spec()->set_detached(false);
  scene.ask(wanted);
  const auto order = scene.world.starts.back();
  const auto found = ask(scene, message);
  REQUIRE(found->has_value());
  CHECK(must(**found).info.id() == order.actor());
  CHECK(must(**found).info.origin() == 77);
  CHECK(must(**found).info.state() == "starting");
  v1::Withdraw withdrawal;
  withdrawal.set_client(1);
  withdrawal.set_client_request(order.client_request());
  scene.core.withdraw(withdrawal, BrokerAnswer<void>{[](const Result<void>&) {}});
  scene.end(order);
  CHECK(scene.core.state({}).actors_size() == 0);
}
