// What the next broker knows of actors by the store, though no node brings them.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

using namespace broker_test;

namespace {

/// A request for an actor that has no name and ends with its client.
v1::SpawnActor nameless(std::uint64_t client, int restarts) {
  auto message = Scene::actor_of(client, "");
  message.mutable_spec()->set_detached(false);
  message.mutable_spec()->set_max_restarts(restarts);
  return message;
}

/// Asks for the end of "a", which may live again. @returns whether that was answered, also later.
std::shared_ptr<bool> end_this_life(Scene& scene) {
  v1::KillActor kill;
  kill.set_name("a");
  auto answered = std::make_shared<bool>(false);
  scene.core.kill(kill, {}, BrokerAnswer<void>{[answered](const Result<void>& done) { *answered = done.has_value(); }});
  return answered;
}

} // namespace

TEST_CASE("an actor without a name that may be restarted is known to the next broker, though its node is not",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  const auto stored = [&] { return must(store->load(StateSection::actors)).size(); };
  v1::StartActor lasting;
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.greet(2);
    first.add_node();
    static_cast<void>(first.spawn(nameless(1, 0)));
    lasting = first.spawn(nameless(1, 5));
    static_cast<void>(first.spawn(nameless(2, 5)));
    first.core.finish();
    CHECK(stored() == 2);
  }
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  second.greet(1); // client 2 does not come back
  second.add_node();
  second.run(2s);
  REQUIRE(second.world.starts.size() == 1);
  CHECK(second.world.starts.front().actor() == lasting.actor());
  CHECK(second.world.starts.front().restarts() == 1);
  CHECK(second.core.state({}).actors_size() == 1);
  second.core.finish();
  CHECK(stored() == 1);
}

TEST_CASE("an actor between two lives has the next one at the next broker, and pays for no other", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor order;
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node();
    order = first.spawn(nameless(1, 1));
    first.core.peer_down(first.node_peer); // its next life waits for a place
    first.run(60s);
    REQUIRE(first.core.state({}).actors(0).state() == "waiting");
    first.core.finish();
  }
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  second.greet(1);
  second.add_node();
  second.run(2s);
  REQUIRE(second.world.starts.size() == 1);
  CHECK(second.world.starts.front().actor() == order.actor());
  CHECK(second.world.starts.front().restarts() == 1);
}

TEST_CASE("an actor that was told to end for good does not live again, whoever knows of that", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene first{{.store = store}};
  first.greet(1);
  first.add_node();
  static_cast<void>(first.spawn(1, "a"));
  static_cast<void>(first.kill("a", 100));
  first.core.finish();
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  second.greet(1);
  second.add_node();
  second.run(2s);
  CHECK(second.world.starts.empty());
  CHECK(second.core.state({}).actors_size() == 0);
}

TEST_CASE("an actor that was told to end for good is told again when its node brings it back alive", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene first{{.store = store}};
  first.greet(1);
  first.add_node();
  const auto order = first.spawn(1, "a");
  static_cast<void>(first.kill("a", 100));
  first.core.finish();
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  second.add_node({begun(order)});
  REQUIRE(second.world.ends.size() == 1);
  CHECK(second.world.ends.back().lease() == order.lease().id());
  CHECK(second.core.state({}).actors(0).state() == "stopping");
}

TEST_CASE("an actor whose node is late waits for it, and goes on with the life that it brings", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene first{{.store = store}};
  first.greet(1);
  first.add_node();
  first.ask(Scene::actor_of(1, "a"));
  REQUIRE(first.world.starts.size() == 1); // it is being started
  const auto order = first.world.starts.front();
  first.core.finish();
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  second.greet(1);
  second.run(60s);
  REQUIRE(second.core.state({}).actors_size() == 1);
  CHECK(second.core.state({}).actors(0).state() == "waiting");
  second.add_node({held_by(order)});
  CHECK(second.world.ends.empty());
  CHECK(second.world.starts.empty());
  REQUIRE(second.core.state({}).actors_size() == 1);
  CHECK(second.core.state({}).actors(0).lease().id() == order.lease().id());
}

TEST_CASE("an actor without a name whose first life has not begun is its client's to ask for again", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene first{{.store = store}};
  first.greet(1);
  first.add_node();
  first.ask(nameless(1, 5));
  REQUIRE(first.world.starts.size() == 1);
  first.core.finish();
  CHECK(must(store->load(StateSection::actors)).empty());
}

TEST_CASE("an actor whose node is not back yet may be killed, and lives again if the kill permits it",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene first{{.store = store}};
  first.greet(1);
  first.add_node();
  const auto order = first.spawn(1, "a");
  first.core.finish();
  const bool node_comes = GENERATE(true, false);
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  second.greet(1);
  const auto answered = end_this_life(second);
  CHECK_FALSE(*answered);
  if (node_comes) {
    second.add_node({held_by(order)});
    REQUIRE(second.world.ends.size() == 1);
    v1::LeaseEnded ended;
    ended.set_lease(order.lease().id());
    ended.set_epoch(order.lease().epoch());
    second.core.lease_ended(ended);
  } else {
    second.add_node();
  }
  second.run(2s);
  CHECK(*answered);
  REQUIRE(second.world.starts.size() == 1);
  CHECK(second.world.starts.front().actor() == order.actor());
}

TEST_CASE("an actor that never had a place is killed at the next broker as at the one before", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  Scene first{{.store = store}};
  first.greet(1);
  first.add_node();
  auto all_of_node = nameless(1, 0);
  all_of_node.mutable_request()->set_cpu_units(100'000);
  static_cast<void>(first.spawn(all_of_node));
  auto waits = Scene::actor_of(1, "a");
  waits.mutable_request()->set_cpu_units(100'000);
  first.ask(waits);
  REQUIRE(first.world.starts.size() == 1);
  first.core.finish();
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  second.greet(1);
  second.add_node();
  const auto answered = end_this_life(second);
  second.run(2s);
  CHECK(*answered);
  CHECK(second.world.starts.empty());
  CHECK(second.core.state({}).actors_size() == 0);
}

TEST_CASE("what was lent by a lease in a bundle has its room there when only the borrower is left", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartRunner borrower;
  {
    Scene first{{.store = store}};
    first.greet(1);
    first.add_node();
    v1::SubmitGroup group;
    group.set_client(1);
    group.set_client_request(1);
    group.set_detached(true);
    group.add_bundles()->set_cpu_units(100'000); // all of the node
    std::uint64_t id = 0;
    first.core.submit_group(
        group, {}, BrokerAnswer<v1::GroupInfo>{[&](const Result<v1::GroupInfo>& placed) { id = must(placed).id(); }});
    const auto acquire = [&](std::uint64_t number, std::uint64_t parent) {
      v1::AcquireLease message;
      message.set_client(1);
      message.set_client_request(number);
      message.mutable_request()->set_cpu_units(parent == 0 ? 100'000 : 50'000);
      if (parent == 0)
        message.mutable_request()->set_group(id);
      else
        message.mutable_request()->set_parent_lease(parent);
      first.core.acquire(message, {}, BrokerAnswer<Grant>{[](const Result<Grant>&) {}});
      return first.world.runners.back();
    };
    const auto lender = acquire(2, 0);
    borrower = acquire(3, lender.lease().id());
    REQUIRE(first.world.runners.size() == 2);
    first.core.finish();
  }
  Scene second{{.last_id = 1U << 30U, .settle = 1s, .store = store}};
  v1::Hello hello;
  hello.set_client(1);
  hello.add_leases(borrower.lease().id());
  must(second.core.hello(hello, {}, std::make_shared<Somebody>()));
  v1::HeldLease held;
  *held.mutable_lease() = borrower.lease();
  held.set_client(1);
  second.add_node({held});
  second.run(2s);
  REQUIRE(second.core.state({}).leases_size() == 1);
  CHECK(second.core.state({}).leases(0).id() == borrower.lease().id());
}
