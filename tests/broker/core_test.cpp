// The broker's core alone: what it orders after connections and brokers were lost, and what it refuses to whom.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

#include <algorithm>

using namespace broker_test;

// -- orders that may have been lost ---------------------------------------------------------------

TEST_CASE("an order to end is repeated with its grace when the node is back", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(1, "a");
  REQUIRE(scene.kill("a", 700).has_value());
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().grace_ms() == 700);
  scene.add_node({held_by(order)});
  REQUIRE(scene.world.ends.size() == 2);
  CHECK(scene.world.ends.back().lease() == order.lease().id());
  CHECK(scene.world.ends.back().grace_ms() == 700);
}

TEST_CASE("work without an owner is ended with a grace, so that what is stuck is killed", "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.add_node();
  auto order = earlier.spawn(1, "a");
  order.mutable_spec()->set_detached(false);
  Scene scene{{.last_id = 1'000}};
  scene.add_node({held_by(order)});
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == order.lease().id());
  CHECK(scene.world.ends.back().grace_ms() == stop_grace);
}

TEST_CASE("what is stuck in a placement group that is removed is killed", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  v1::ReleaseGroup release;
  release.set_id(scene.add_group());
  auto member = Scene::actor_of(1, "a");
  member.mutable_request()->set_group(release.id());
  const auto order = scene.spawn(member);
  bool removed = false;
  scene.core.release_group(release, {},
                           BrokerAnswer<void>{[&](const Result<void>& done) { removed = done.has_value(); }});
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().grace_ms() == stop_grace);
  CHECK_FALSE(removed);
  scene.end(order);
  CHECK(removed);
}

// -- waits -----------------------------------------------------------------------------------------

TEST_CASE("the time in the queue that an actor was given is for its first life", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  const auto peer = scene.add_node("n0", 7);
  auto message = Scene::actor_of(1, "a");
  message.mutable_request()->set_queue_timeout_ms(1'000);
  scene.spawn(message);
  scene.core.peer_down(peer);
  scene.run(60s);
  REQUIRE(scene.core.state({}).actors_size() == 1);
  CHECK(scene.core.state({}).actors(0).state() == "waiting");
  scene.add_node("n0", 8);
  CHECK(scene.world.starts.size() == 2);
}

TEST_CASE("leases make way for a placement group that waits when the broker starts again", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartRunner runner;
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.greet(2);
    first.add_node();
    v1::AcquireLease acquire;
    acquire.set_client(1);
    acquire.set_client_request(1);
    acquire.mutable_request()->set_cpu_units(100'000);
    first.core.acquire(acquire, {}, BrokerAnswer<Grant>{[](const Result<Grant>&) {}});
    REQUIRE(first.world.runners.size() == 1);
    runner = first.world.runners.front();
    v1::SubmitGroup group;
    group.set_client(2);
    group.set_client_request(1);
    group.set_detached(true);
    group.add_bundles()->set_cpu_units(10'000);
    first.core.submit_group(group, {}, BrokerAnswer<v1::GroupInfo>{[](const Result<v1::GroupInfo>&) {}});
    REQUIRE(first.world.reclaims.size() == 1);
    first.core.finish();
  }
  Scene scene{{.last_id = 1'000, .settle = 1s, .store = store}};
  v1::Hello hello;
  hello.set_client(1);
  hello.set_reconnect_grace_ms(60'000);
  hello.add_leases(runner.lease().id());
  must(scene.core.hello(hello, {}, std::make_shared<Somebody>()));
  v1::HeldLease held;
  *held.mutable_lease() = runner.lease();
  held.set_client(1);
  held.mutable_started()->set_lease(runner.lease().id());
  held.mutable_started()->set_epoch(runner.lease().epoch());
  scene.add_node({held});
  scene.run(2s);
  REQUIRE(scene.core.state({}).groups_size() == 1);
  REQUIRE(scene.core.state({}).groups(0).state() == "waiting");
  REQUIRE(scene.world.reclaims.size() == 1);
  CHECK(scene.world.reclaims.front().lease() == runner.lease().id());
}

// -- the store -------------------------------------------------------------------------------------

TEST_CASE("what a full disk does not take is written when there is room again, and one event tells of it",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  const auto stored = [&] { return must(store->load(StateSection::actors)).size(); };
  Scene scene{{.store = store}};
  scene.greet(1);
  scene.add_node();
  scene.run(1s);
  store->is_full = true;
  scene.spawn(1, "a");
  scene.run(10s);
  CHECK(stored() == 0);
  CHECK(scene.count("error") == 1);
  store->is_full = false;
  scene.run(2s);
  CHECK(stored() == 1);
  store->is_full = true;
  scene.spawn(1, "b");
  scene.run(2s);
  CHECK(scene.count("error") == 2);
  store->is_full = false;
  scene.core.finish();
  CHECK(stored() == 2);
}

// -- ends ----------------------------------------------------------------------------------------

TEST_CASE("an actor's end says who wanted it", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto reason_of = [&](const v1::StartActor& order) {
    v1::LeaseEnded ended;
    ended.set_lease(order.lease().id());
    ended.set_epoch(order.lease().epoch());
    scene.core.lease_ended(ended);
    return scene.last_end();
  };
  const auto by_itself = scene.spawn(1, "a", {}, 0);
  CHECK(reason_of(by_itself) == "the actor has ended by itself");
  const auto killed = scene.spawn(1, "b", {}, 0);
  (void)scene.kill("b", 0, Caller{"gpu1", true});
  CHECK(reason_of(killed) == "it was killed by gpu1");
  const auto drained = scene.spawn(1, "c", {}, 0);
  const auto killed_late = scene.spawn(1, "d");
  scene.drain("n0", 0ms);
  CHECK(reason_of(drained) == "node n0 had to be empty by now, and an actor without restarts does not move");
  // It would have lived again elsewhere: who ends it for good is who is told.
  (void)scene.kill("d", 0, Caller{"gpu1", true});
  CHECK(reason_of(killed_late) == "it was killed by gpu1");
  scene.undrain("n0");

  v1::ReleaseGroup release;
  release.set_id(scene.add_group());
  auto member = Scene::actor_of(1, "e");
  member.mutable_request()->set_group(release.id());
  const auto in_group = scene.spawn(member);
  scene.core.release_group(release, {}, BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  CHECK(reason_of(in_group) == "placement group " + std::to_string(release.id()) + " was removed");
}

TEST_CASE("a broker that starts tells types only when a node has brought some, or none comes back", "[broker][core]") {
  Scene scene{{.last_id = 1'000, .settle = 5s}};
  int answers = 0;
  std::optional<v1::TypeCatalog> last;
  const auto ask = [&] {
    scene.core.types({}, BrokerCore::TypesAnswer{[&](Result<v1::TypeCatalog> types) {
                       ++answers;
                       last = *types;
                     }});
  };
  ask();
  CHECK(answers == 0);
  scene.add_node();
  CHECK(answers == 1);
  ask();
  CHECK(answers == 2);

  Scene empty{{.last_id = 1'000, .settle = 5s}};
  empty.core.types({}, BrokerCore::TypesAnswer{[&](const Result<v1::TypeCatalog>&) { ++answers; }});
  CHECK(answers == 2);
  empty.world.time += 5s;
  empty.core.wake(Wake::settled);
  CHECK(answers == 3);
}

// -- saved state ----------------------------------------------------------------------------------

TEST_CASE("the last state of a life reaches the next one also when it comes after the life's end", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto first = scene.spawn(1, "a");
  scene.save(first, "one");
  scene.core.peer_down(scene.node_peer);
  scene.save(first, "two");
  scene.add_node();
  REQUIRE(scene.world.starts.size() == 2);
  const auto second = scene.world.starts.back();
  CHECK(second.saved() == "two");

  // What an earlier life saved does not replace what a later one has.
  scene.start(second);
  scene.save(first, "late");
  scene.save(second, "three");
  scene.core.peer_down(scene.node_peer);
  scene.save(first, "later");
  scene.add_node();
  REQUIRE(scene.world.starts.size() == 3);
  CHECK(scene.world.starts.back().saved() == "three");
}

TEST_CASE("a broker that was restarted takes no older state for what a node brought", "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.add_node();
  const auto first = earlier.spawn(1, "a");
  earlier.core.peer_down(earlier.node_peer);
  earlier.add_node();
  auto second = earlier.world.starts.back();
  REQUIRE(second.lease().id() > first.lease().id());
  second.set_saved_type("State");
  second.set_saved("newer");

  Scene scene{{.last_id = 1'000}};
  scene.add_node({held_by(second)});
  scene.core.peer_down(scene.node_peer);
  scene.save(first, "older");
  scene.add_node();
  REQUIRE(scene.world.starts.size() == 1);
  CHECK(scene.world.starts.back().saved() == "newer");
}

// -- lives on nodes that were cut off --------------------------------------------------------------

TEST_CASE("of two lives that nodes bring, the one that was started last is the actor", "[broker][core]") {
  const bool older_first = GENERATE(false, true);
  Scene earlier;
  earlier.greet(1);
  earlier.add_node();
  const auto older = earlier.spawn(1, "a");
  earlier.core.peer_down(earlier.node_peer);
  earlier.add_node("n1", 8);
  const auto newer = earlier.world.starts.back();
  REQUIRE(newer.lease().node() == "n1");

  Scene scene{{.last_id = 1'000}};
  scene.greet(1);
  if (older_first)
    scene.add_node("n0", 7, {held_by(older)});
  scene.add_node("n1", 8, {held_by(newer)});
  if (!older_first)
    scene.add_node("n0", 7, {held_by(older)});
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == older.lease().id());
  const auto state = scene.core.state({});
  REQUIRE(state.actors_size() == 1);
  CHECK(state.actors(0).lease().id() == newer.lease().id());
  scene.start(newer);
  v1::LeaseEnded ended;
  ended.set_lease(older.lease().id());
  ended.set_epoch(older.lease().epoch());
  scene.core.lease_ended(ended);
  CHECK(scene.core.state({}).actors(0).state() == "alive");
  CHECK(scene.core.state({}).leases_size() == 1);
}

TEST_CASE("an actor that was ended while a node with a life of it was cut off comes back to no broker",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene first{{.store = store}};
  first.greet(1);
  first.add_node();
  const auto order = first.spawn(1, "a");
  first.core.peer_down(first.node_peer);
  REQUIRE(first.kill("a", 100).has_value());
  first.run(1s);

  for (std::uint64_t life = 1; life <= 2; ++life) {
    Scene later{{.last_id = life * (1U << 30U), .settle = 1s, .store = store}};
    later.greet(1);
    later.add_node({held_by(order)});
    REQUIRE(later.world.ends.size() == 1);
    CHECK(later.world.ends.back().lease() == order.lease().id());
    CHECK(later.core.state({}).actors_size() == 0);
  }
}

TEST_CASE("what was withdrawn while its node was cut off is ended when the node comes to a later broker",
          "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.add_node();
  const auto order = earlier.spawn(1, "");
  Scene scene{{.last_id = 1'000, .settle = 1s}};
  scene.greet(1);
  scene.run(2s);
  v1::Withdraw message;
  message.set_client(1);
  message.set_client_request(order.client_request());
  scene.core.withdraw(message, BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  scene.add_node({held_by(order)});
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == order.lease().id());
}

TEST_CASE("of two lives, a later broker's is the later one, however often the other was restarted", "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.add_node();
  const auto first = earlier.spawn(1, "a");
  earlier.core.peer_down(earlier.node_peer);
  earlier.add_node("n1", 8);
  const auto second = earlier.world.starts.back();
  REQUIRE(second.restarts() == 1);
  // It crashes in its second life: the third has been restarted more often than what the next broker starts below.
  earlier.start(second);
  earlier.end(second);
  earlier.run(1s);
  const auto third = earlier.world.starts.back();
  REQUIRE(third.restarts() == 2);

  Scene scene{{.last_id = 1'000}};
  scene.greet(1);
  scene.add_node("n0", 7, {held_by(first)});
  scene.end(first);
  scene.run(1s);
  const auto latest = scene.world.starts.back();
  REQUIRE(latest.restarts() == 1);
  scene.start(latest);
  scene.add_node("n1", 8, {held_by(third)});
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == third.lease().id());
  CHECK(scene.core.state({}).actors(0).lease().id() == latest.lease().id());
}

TEST_CASE("a later life that a node brings is taken while the actor waits for a place", "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.add_node();
  const auto older = earlier.spawn(1, "a");
  earlier.core.peer_down(earlier.node_peer);
  earlier.add_node("n1", 8);
  const auto newer = earlier.world.starts.back();

  Scene scene{{.last_id = 1'000}};
  scene.greet(1);
  const auto peer = scene.add_node("n0", 7, {held_by(older)});
  scene.core.peer_down(peer);
  REQUIRE(scene.core.state({}).actors(0).state() == "waiting");
  scene.add_node("n1", 8, {held_by(newer)});
  scene.run(1s);
  CHECK(scene.world.ends.empty());
  CHECK(scene.world.starts.empty());
  scene.start(newer);
  const auto state = scene.core.state({});
  CHECK(state.actors(0).state() == "alive");
  CHECK(state.actors(0).lease().id() == newer.lease().id());
  CHECK(state.queue_size() == 0);
}

TEST_CASE("what a broker had from an earlier one and was ended comes back to no later one", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene first{{.store = store}};
  first.greet(1);
  first.add_node();
  const auto older = first.spawn(1, "a");
  first.core.peer_down(first.node_peer);
  first.add_node("n1", 8);
  const auto newer = first.world.starts.back();

  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  second.greet(1);
  second.add_node("n0", 7, {held_by(older)});
  static_cast<void>(second.kill("a", 100));
  second.end(older);
  second.run(2s);
  REQUIRE(second.core.state({}).actors_size() == 0);

  Scene third{{.last_id = 2U << 30U, .settle = 1s, .store = store}};
  third.greet(1);
  third.add_node("n1", 8, {held_by(newer)});
  REQUIRE(third.world.ends.size() == 1);
  CHECK(third.core.state({}).actors_size() == 0);
}

TEST_CASE("a later broker does not restore a bundle whose place others got while its node was away", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node();
    first.add_node("n1", 8);
    first.add_spread_group();
    first.core.finish();
  }
  v1::StartActor order;
  {
    Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
    second.greet(1);
    second.add_node("n1", 8);
    second.run(2s); // the other node is not back in time
    auto actor = Scene::actor_of(1, "a");
    actor.mutable_request()->set_cpu_units(60'000);
    actor.mutable_request()->set_priority(1);
    actor.mutable_request()->set_wait_for_nodes(true);
    second.ask(actor);
    second.add_node();
    REQUIRE(second.world.starts.size() == 1);
    order = second.world.starts.back();
    second.core.finish();
  }
  Scene third{{.last_id = 2U << 30U, .settle = 1s, .store = store}};
  third.add_node("n1", 8);
  third.add_node({held_by(order)});
  CHECK(third.world.ends.empty());
  CHECK(third.core.state({}).leases_size() == 1);
}

TEST_CASE("a client with the highest number leaves like any other", "[broker][core]") {
  Scene scene;
  scene.greet(5);
  v1::Withdraw message;
  message.set_client(5);
  message.set_client_request(1);
  scene.core.withdraw(message, BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  scene.greet(std::numeric_limits<std::uint64_t>::max());
  scene.core.peer_down(scene.world.last_peer);
  scene.run(1s);
  CHECK(scene.core.state({}).clients_size() == 1);
}

// -- the state -----------------------------------------------------------------------------------

TEST_CASE("who follows the events gets them without the state of the cluster", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  scene.spawn(1, "a");
  v1::GetState message;
  message.set_events_from(2);
  message.set_only_past(true);
  const auto past = scene.core.state(message);
  REQUIRE(past.events_size() > 0);
  CHECK(past.events(0).sequence() == 2);
  CHECK(past.counters().at("spawned") == 1);
  CHECK(past.nodes_size() + past.actors_size() + past.leases_size() + past.clients_size() == 0);
  message.set_only_past(false);
  const auto all = scene.core.state(message);
  CHECK(all.nodes_size() == 1);
  CHECK(all.actors_size() == 1);
}

// -- rights ---------------------------------------------------------------------------------------

TEST_CASE("clients end what their own name has started, administrators end everything", "[broker][core]") {
  const Caller alice{"alice", false};
  const Caller bob{"bob", false};
  const Caller admin{"gpu1", true};
  Scene scene;
  scene.greet(1, alice);
  scene.add_node();
  for (const auto* name : {"a", "b"})
    CHECK(scene.spawn(1, name, alice).spec().owner() == "alice");
  CHECK(code_of(scene.kill("a", 1, bob)) == Errc::permission_denied);
  CHECK(code_of(scene.kill("a", 1, Caller{{}, false})) == Errc::permission_denied);
  CHECK(scene.world.ends.empty());
  CHECK(scene.kill("a", 1, alice).has_value());
  CHECK(scene.kill("b", 1, admin).has_value());
  CHECK(scene.world.ends.size() == 2);
}

TEST_CASE("nobody speaks for another's client, also not after a restart of the broker", "[broker][core]") {
  const Caller alice{"alice", false};
  const Caller bob{"bob", false};
  Scene earlier;
  earlier.greet(1, alice);
  earlier.add_node();
  const auto order = earlier.spawn(1, "a", alice);
  CHECK(earlier.core.speaks_for(1, alice));
  CHECK_FALSE(earlier.core.speaks_for(1, bob));
  CHECK(earlier.core.speaks_for(2, bob));

  Scene scene{{.last_id = 1'000, .settle = 5s}};
  scene.add_node({held_by(order)});
  CHECK_FALSE(scene.core.speaks_for(1, bob));
  CHECK(scene.core.speaks_for(1, alice));
  CHECK(scene.core.speaks_for(1, Caller{}));
}

TEST_CASE("an actor whose process was ended for its memory lives again, and an event says why", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(1, "a");
  v1::LeaseEnded ended;
  ended.set_lease(order.lease().id());
  ended.set_epoch(order.lease().epoch());
  ended.set_error(static_cast<std::uint32_t>(Errc::worker_died));
  ended.set_text("it used 3 GiB of host memory, and had asked for 2 GiB");
  ended.set_host_memory(true);
  scene.core.lease_ended(ended);
  CHECK(scene.count("out_of_memory") == 1);
  CHECK(scene.count("restarting") == 1);
  v1::GetState all;
  all.set_events_from(1);
  const auto state = scene.core.state(all);
  const auto event = std::find_if(state.events().begin(), state.events().end(),
                                  [](const auto& one) { return one.kind() == "out_of_memory"; });
  REQUIRE(event != state.events().end());
  CHECK(event->name() == order.lease().name());
  CHECK(event->reason() == ended.text());
  CHECK(event->lease().id() == order.lease().id());
}
