// What the broker keeps for those who wait, repeat themselves, or are gone already; and what it tells of the state.
#include <gpuactors/broker/core/actor_waiters.hpp>

#include <broker/core_scene.hpp>

using namespace broker_test;

namespace {

/// An actor that was told to end and has five minutes for it.
struct Ending : Scene {
  Ending() {
    greet(1);
    add_node();
    order = Scene::spawn(1, "a");
    must(kill("a", 300'000));
  }

  v1::StartActor order;
};

/// The answer to a look-up or a spawn, as far as there is one.
using Found = std::shared_ptr<std::optional<Result<FoundActor>>>;

BrokerAnswer<FoundActor> answer_in(const Found& found) {
  return BrokerAnswer<FoundActor>{[found](Result<FoundActor> result) { *found = std::move(result); }};
}

Found find(Scene& scene, const std::string& name, std::uint64_t client, std::uint64_t limit_ms) {
  v1::FindActor message;
  message.set_name(name);
  message.set_client(client);
  message.set_limit_ms(limit_ms);
  auto found = std::make_shared<std::optional<Result<FoundActor>>>();
  scene.core.find(message, answer_in(found));
  return found;
}

Found spawn(Scene& scene, std::uint64_t client, const std::string& name, bool get_if_exists = false) {
  auto message = Scene::actor_of(client, name);
  message.set_client_request(++scene.last_request);
  message.set_get_if_exists(get_if_exists);
  auto found = std::make_shared<std::optional<Result<FoundActor>>>();
  scene.core.spawn_actor(message, {}, {}, answer_in(found));
  return found;
}

Errc code_of(const Found& found) {
  REQUIRE(found->has_value());
  return found->value() ? Errc::none : found->value().error().code();
}

v1::AcquireLease lease_for(std::uint64_t client, std::uint64_t request) {
  v1::AcquireLease message;
  message.set_client(client);
  message.set_client_request(request);
  message.mutable_request()->set_gpu_units(10'000);
  message.mutable_request()->set_wait_for_nodes(true);
  return message;
}

using Granted = std::shared_ptr<std::optional<Result<Grant>>>;

Granted acquire(Scene& scene, const v1::AcquireLease& message) {
  auto granted = std::make_shared<std::optional<Result<Grant>>>();
  scene.core.acquire(message, {},
                     BrokerAnswer<Grant>{[granted](Result<Grant> result) { *granted = std::move(result); }});
  return granted;
}

} // namespace

TEST_CASE("those who seek an actor in vain are forgotten when their time is over", "[broker]") {
  ActorWaiters waiters;
  int answered = 0;
  const auto add = [&](TimePoint until, TimePoint now) {
    waiters.add(BrokerAnswer<FoundActor>{[&answered](const Result<FoundActor>&) { ++answered; }}, 1, until, now);
  };
  for (int second = 0; second < 10'000; ++second)
    add(TimePoint{second * 1s + 1s}, TimePoint{second * 1s});
  CHECK(waiters.size() <= 64);
  // Those who wait for ever stay.
  for (int i = 0; i < 1'000; ++i)
    add(never, TimePoint{1h * 24});
  CHECK(waiters.size() >= 1'000);
  waiters.answer([] { return FoundActor{}; });
  CHECK(answered == 11'000);
  CHECK(waiters.size() == 0);
}

TEST_CASE("an actor that waits for its place is found by who has the patience", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.greet(2);
  auto message = Scene::actor_of(1, "a");
  message.mutable_request()->set_wait_for_nodes(true);
  scene.ask(message);
  std::vector<Found> impatient;
  for (int i = 0; i < 100; ++i) {
    impatient.push_back(find(scene, "a", 1, 1'000));
    scene.run(1s);
  }
  const auto gone = find(scene, "a", 2, 0);
  const auto patient = find(scene, "a", 1, 0);
  CHECK(code_of(impatient.front()) == Errc::deadline_exceeded);
  scene.core.peer_down(scene.world.last_peer); // the second client
  CHECK(code_of(gone) == Errc::deadline_exceeded);
  scene.add_node();
  scene.start(scene.world.starts.back());
  CHECK(code_of(patient) == Errc::none);
}

TEST_CASE("a name is free for the next actor when the one before has ended, and that is waited for", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(1, "a");
  CHECK(code_of(spawn(scene, 1, "a")) == Errc::already_exists);
  must(scene.kill("a", 1'000));
  const auto joins = GENERATE(false, true);
  const auto next = spawn(scene, 1, "a", joins);
  CHECK_FALSE(next->has_value());
  CHECK(scene.world.starts.size() == 1);
  scene.end(order);
  REQUIRE(scene.world.starts.size() == 2);
  scene.start(scene.world.starts.back());
  CHECK(code_of(next) == Errc::none);
  CHECK(next->value()->info.id() != order.actor());
}

TEST_CASE("who waits for a name hears of it when the one that has it does not end", "[broker][core]") {
  Ending scene;
  const auto next = spawn(scene, 1, "a");
  v1::LeaseStuck stuck;
  stuck.set_lease(scene.order.lease().id());
  stuck.set_epoch(scene.order.lease().epoch());
  stuck.set_text("it runs on");
  scene.core.stuck(stuck);
  CHECK(code_of(next) == Errc::already_exists);
  CHECK(code_of(spawn(scene, 1, "a")) == Errc::already_exists); // the node says it once
  scene.end(scene.order);
  CHECK(scene.world.starts.size() == 1);
}

TEST_CASE("that an earlier life did not end is not held against the next one", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(1, "a");
  v1::KillActor kill;
  kill.set_name("a");
  scene.core.kill(kill, {}, BrokerAnswer<void>{[](const Result<void>&) {}});
  v1::LeaseStuck stuck;
  stuck.set_lease(order.lease().id());
  stuck.set_epoch(order.lease().epoch());
  scene.core.stuck(stuck);
  scene.end(order); // late
  REQUIRE(scene.world.starts.size() == 2);
  scene.start(scene.world.starts.back());
  must(scene.kill("a", 1'000));
  const auto next = spawn(scene, 1, "a");
  CHECK_FALSE(next->has_value());
  scene.end(scene.world.starts.back());
  CHECK(scene.world.starts.size() == 3);
}

TEST_CASE("a request for a name that is still taken waits no longer than it says", "[broker][core]") {
  Ending scene;
  auto message = Scene::actor_of(1, "a");
  message.set_client_request(++scene.last_request);
  message.mutable_request()->set_queue_timeout_ms(1'000);
  const auto next = std::make_shared<std::optional<Result<FoundActor>>>();
  scene.core.spawn_actor(message, {}, {}, answer_in(next));
  scene.run(900ms);
  CHECK_FALSE(next->has_value());
  scene.run(200ms);
  CHECK(code_of(next) == Errc::no_capacity);
  scene.end(scene.order);
  CHECK(scene.world.starts.size() == 1);
}

TEST_CASE("a request for a name that is still taken can be withdrawn", "[broker][core]") {
  Ending scene;
  const auto next = spawn(scene, 1, "a");
  v1::Withdraw message;
  message.set_client(1);
  message.set_client_request(scene.last_request);
  bool withdrawn = false;
  scene.core.withdraw(message, BrokerAnswer<void>{[&](const Result<void>& done) { withdrawn = done.has_value(); }});
  CHECK(withdrawn);
  CHECK(code_of(next) == Errc::cancelled);
  scene.end(scene.order);
  CHECK(scene.world.starts.size() == 1);
}

TEST_CASE("a request for a lease that is repeated is one, and is withdrawn as one", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  const auto message = lease_for(1, 7);
  const auto first = acquire(scene, message);
  const auto again = acquire(scene, message);
  REQUIRE(first->has_value());
  CHECK((*first)->error().code() == Errc::cancelled);
  CHECK_FALSE(again->has_value());
  CHECK(scene.core.state({}).queue_size() == 1);
  v1::CancelAcquire cancel;
  cancel.set_client(1);
  cancel.set_client_request(7);
  scene.core.cancel(cancel);
  CHECK(again->has_value());
  CHECK(scene.core.state({}).queue_size() == 0);
}

TEST_CASE("a hello whose connection has ended keeps nobody out who comes after it", "[broker][core]") {
  Scene scene;
  v1::Hello message;
  message.set_client(1);
  message.set_reconnect_grace_ms(60'000);
  const auto refused = scene.core.hello(message, Caller{{}, false}, std::make_shared<Somebody>());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::unavailable);
  const Caller alice{"alice", false};
  CHECK(scene.core.speaks_for(1, alice));
  CHECK(scene.core.hello(message, alice, std::make_shared<Somebody>()).has_value());
}

TEST_CASE("a client that says hello again on its connection is watched once", "[broker][core]") {
  Scene scene;
  const auto port = std::make_shared<Somebody>();
  v1::Hello message;
  message.set_client(1);
  must(scene.core.hello(message, {}, port));
  const auto watched = scene.world.last_peer;
  for (int i = 0; i < 10; ++i)
    must(scene.core.hello(message, {}, port));
  CHECK(scene.world.last_peer == watched);
  scene.core.peer_down(watched);
  CHECK(scene.core.state({}).clients_size() == 0);
}

TEST_CASE("the state fits on a link, whatever actors say as they end", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const std::string words(limits::error_text_bytes / 2, 'x');
  for (std::size_t i = 0; i < limits::ended_actors; ++i) {
    const auto order = scene.spawn(1, "a", {}, 0);
    v1::LeaseEnded ended;
    ended.set_lease(order.lease().id());
    ended.set_epoch(order.lease().epoch());
    ended.set_error(static_cast<std::uint32_t>(Errc::task_failed));
    ended.set_text(words);
    scene.core.lease_ended(ended);
  }
  v1::GetState message;
  message.set_events_from(1);
  message.set_ended(limits::ended_actors);
  const auto state = scene.core.state(message);
  CHECK(state.ByteSizeLong() < limits::link_message_bytes / 2);
  CHECK(state.ended_size() == limits::ended_actors);
  CHECK(state.ended(0).reason().size() <= limits::kept_reason_bytes);
  CHECK(state.incomplete_size() == 0);
}

TEST_CASE("a state that does not fit on a link says what is not whole", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  constexpr std::size_t waiting = 150'000;
  auto message = lease_for(1, 0);
  message.mutable_request()->set_name(std::string(limits::name_length, 'n'));
  for (std::size_t i = 0; i < waiting; ++i) {
    message.set_client_request(i + 1);
    scene.core.acquire(message, {}, BrokerAnswer<Grant>{[](const Result<Grant>&) {}});
  }
  const auto state = scene.core.state({});
  CHECK(state.ByteSizeLong() < limits::link_message_bytes / 2);
  CHECK(static_cast<std::size_t>(state.queue_size()) < waiting);
  REQUIRE(state.incomplete_size() == 1);
  CHECK(state.incomplete(0) == "queue");
}
