// The broker's core alone: what it orders after connections and brokers were lost, and what it refuses to whom.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/broker_core.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <algorithm>
#include <map>
#include <optional>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// Writes down what it is told.
class World : public BrokerWorld {
public:
  [[nodiscard]] TimePoint now() const override {
    return time;
  }
  [[nodiscard]] Duration machine_time() const override {
    return time.time_since_epoch() + suspended;
  }
  [[nodiscard]] std::int64_t unix_ns() const override {
    return 0;
  }
  void post(const ContactPtr&, v1::StartRunner) override {
    // nop
  }
  void post(const ContactPtr&, v1::StartActor order, Payload) override {
    starts.push_back(std::move(order));
  }
  void post(const ContactPtr&, v1::EndLease order) override {
    ends.push_back(std::move(order));
  }
  void post(const ContactPtr&, v1::ReclaimLease) override {
    // nop
  }
  void wake(Duration after, Wake what) override {
    wakes.emplace(deadline_after(time, after), what);
  }
  void watch(const ContactPtr&, std::uint64_t peer) override {
    last_peer = peer;
  }

  /// The next reason to wake the core until then; none: it is that time now.
  std::optional<Wake> next(TimePoint until) {
    if (wakes.empty() || wakes.begin()->first > until) {
      time = std::max(time, until);
      return std::nullopt;
    }
    const auto due = wakes.extract(wakes.begin());
    time = std::max(time, due.key());
    return due.mapped();
  }

  TimePoint time{1h};
  /// Not counted by `time`.
  Duration suspended{};
  std::multimap<TimePoint, Wake> wakes;
  std::vector<v1::StartActor> starts;
  std::vector<v1::EndLease> ends;
  std::uint64_t last_peer = 0;
};

class Somebody : public Contact {};

/// A broker with a node, and clients that spawn actors.
struct Scene {
  explicit Scene(BrokerOptions options = {}) : core(world, std::move(options)) {
    core.start();
  }

  void greet(std::uint64_t client, const Caller& caller = {}, std::chrono::milliseconds grace = {}) {
    v1::Hello message;
    message.set_client(client);
    message.set_reconnect_grace_ms(static_cast<std::uint64_t>(grace.count()));
    must(core.hello(message, caller, std::make_shared<Somebody>()));
  }

  void add_node(const std::vector<v1::HeldLease>& held = {}) {
    node_peer = add_node("n0", 7, held);
  }

  /// @returns the number under which the core watches the node's agent.
  std::uint64_t add_node(const std::string& name, std::uint64_t agent, const std::vector<v1::HeldLease>& held = {}) {
    v1::RegisterNode message;
    auto& node = *message.mutable_node();
    node.set_name(name);
    node.set_cpu_units(100'000);
    message.set_agent(agent);
    for (const auto& lease : held)
      *message.add_held() = lease;
    core.add_node(message, std::make_shared<Somebody>(),
                  BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
    return world.last_peer;
  }

  /// A request for a detached actor that restarts up to five times.
  static v1::SpawnActor actor_of(std::uint64_t client, const std::string& name) {
    v1::SpawnActor message;
    message.set_client(client);
    message.mutable_spec()->set_type("T");
    message.mutable_spec()->set_name(name);
    message.mutable_spec()->set_detached(true);
    message.mutable_spec()->set_max_restarts(5);
    return message;
  }

  void ask(v1::SpawnActor message, const Caller& caller = {}) {
    message.set_client_request(++last_request);
    core.spawn_actor(message, caller, {}, BrokerAnswer<FoundActor>{[](const Result<FoundActor>&) {}});
  }

  /// Has an actor spawned and started. @returns the order with which its node started it.
  v1::StartActor spawn(std::uint64_t client, const std::string& name, const Caller& caller = {}, int restarts = 5) {
    auto message = actor_of(client, name);
    message.mutable_spec()->set_max_restarts(restarts);
    return spawn(message, caller);
  }

  v1::StartActor spawn(const v1::SpawnActor& message, const Caller& caller = {}) {
    ask(message, caller);
    REQUIRE_FALSE(world.starts.empty());
    start(world.starts.back());
    return world.starts.back();
  }

  void start(const v1::StartActor& order) {
    v1::LeaseStarted started;
    started.set_lease(order.lease().id());
    started.set_epoch(order.lease().epoch());
    core.lease_started(started, nullptr, nullptr);
  }

  /// Goes on for so long, without standing still.
  void run(Duration time) {
    const auto until = world.time + time;
    while (const auto what = world.next(until))
      core.wake(*what);
  }

  /// Stands still for longer than others wait: what was due meanwhile is late.
  void stand_still() {
    world.time += 10s;
  }

  /// How many events of the kind there were.
  [[nodiscard]] std::uint64_t count(const std::string& kind) const {
    const auto state = core.state({});
    const auto found = state.counters().find(kind);
    return found == state.counters().end() ? 0 : found->second;
  }

  /// Why the last actor that has ended did; empty: none has.
  [[nodiscard]] std::string last_end() const {
    v1::GetState message;
    message.set_ended(1);
    const auto state = core.state(message);
    return state.ended_size() > 0 ? state.ended(0).reason() : std::string{};
  }

  Result<void> kill(const std::string& name, std::uint64_t grace_ms, const Caller& caller = {}) {
    v1::KillActor message;
    message.set_name(name);
    message.set_no_restart(true);
    message.set_grace_ms(grace_ms);
    // It may be answered after this call has returned: then it was granted.
    const auto answer = std::make_shared<Result<void>>();
    core.kill(message, caller, BrokerAnswer<void>{[answer](Result<void> result) { *answer = std::move(result); }});
    return *answer;
  }

  void save(const v1::StartActor& order, const std::string& state) {
    v1::ActorSaved message;
    message.set_lease(order.lease().id());
    message.set_epoch(order.lease().epoch());
    message.set_actor(order.actor());
    message.set_type("State");
    message.set_data(state);
    core.saved(message);
  }

  World world;
  BrokerCore core;
  std::uint64_t node_peer = 0;
  std::uint64_t last_request = 0;
};

v1::HeldLease held_by(const v1::StartActor& order) {
  v1::HeldLease held;
  *held.mutable_lease() = order.lease();
  held.set_client(order.client());
  held.set_client_request(order.client_request());
  *held.mutable_actor() = order;
  held.mutable_actor()->clear_lease();
  return held;
}

/// The broker waits for nodes and clients after it stood still, with the options `watched`.
constexpr std::chrono::seconds patience = limits::settle;
const BrokerOptions watched{.heartbeat = 1s, .link_timeout = 5s};

const std::uint64_t stop_grace = std::chrono::milliseconds{limits::stop_grace}.count();

} // namespace

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

// -- a broker that stood still ---------------------------------------------------------------------

TEST_CASE("a broker that stood still gives nodes and clients time to come back", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  const auto client_peer = scene.world.last_peer;
  scene.add_node();
  auto owned = Scene::actor_of(1, "b");
  owned.mutable_spec()->set_detached(false);
  const std::vector held{held_by(scene.spawn(1, "a")), held_by(scene.spawn(owned))};

  scene.stand_still();
  scene.core.peer_down(scene.node_peer);
  scene.core.peer_down(client_peer);
  scene.run(3s);
  CHECK(scene.count("stood_still") == 1);
  CHECK(scene.count("node_away") == 1);
  CHECK(scene.count("client_away") == 1);
  scene.add_node(held);
  scene.greet(1);
  scene.run(patience + 1s);
  CHECK(scene.count("node_lost") == 0);
  CHECK(scene.count("node_returned") == 1);
  CHECK(scene.count("client_returned") == 1);
  CHECK(scene.world.starts.size() == 2);
  CHECK(scene.world.ends.empty());

  // Who does not come back is given up after that time ...
  scene.stand_still();
  scene.core.peer_down(scene.world.last_peer);
  scene.run(patience - 100ms);
  CHECK(scene.world.ends.empty());
  scene.run(200ms);
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == held.back().lease().id());
  scene.stand_still();
  scene.core.peer_down(scene.node_peer);
  scene.run(patience - 100ms);
  CHECK(scene.count("node_lost") == 0);
  scene.run(200ms);
  CHECK(scene.count("node_lost") == 1);

  // ... and at once if the broker has run all the time.
  scene.add_node();
  scene.run(1s);
  scene.core.peer_down(scene.node_peer);
  CHECK(scene.count("node_lost") == 2);
}

TEST_CASE("a broker whose machine was suspended stood still, although its clock has not gone on", "[broker][core]") {
  Scene scene{watched};
  scene.add_node();
  scene.run(1s);
  scene.world.suspended += 1h;
  scene.core.peer_down(scene.node_peer);
  CHECK(scene.count("stood_still") == 1);
  CHECK(scene.count("node_away") == 1);
  scene.add_node();
  scene.run(10s);
  CHECK(scene.count("stood_still") == 1);
  CHECK(scene.count("node_lost") == 0);
}

TEST_CASE("a client's time ends only after the patience of a broker that stood still", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1, {}, 300ms);
  scene.add_node();
  auto owned = Scene::actor_of(1, "a");
  owned.mutable_spec()->set_detached(false);
  scene.spawn(owned);
  scene.core.peer_down(scene.world.last_peer - 1);
  CHECK(scene.count("client_away") == 1);
  // The client's time is over before the next pulse: whatever wakes the broker, it sees that it stood still.
  scene.stand_still();
  scene.run(patience - 100ms);
  CHECK(scene.count("stood_still") == 1);
  CHECK(scene.world.ends.empty());
  SECTION("it comes back") {
    scene.greet(1, {}, 300ms);
    scene.run(10s);
    CHECK(scene.count("client_returned") == 1);
    CHECK(scene.world.ends.empty());
  }
  SECTION("it does not") {
    scene.run(200ms);
    CHECK(scene.world.ends.size() == 1);
  }
}

TEST_CASE("a first start that was late while the broker stood still has until its patience is over", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  scene.add_node();
  auto limited = Scene::actor_of(1, "a");
  limited.mutable_spec()->set_spawn_timeout_ms(300);
  scene.ask(limited);
  REQUIRE(scene.world.starts.size() == 1);
  scene.stand_still();
  scene.run(patience - 100ms);
  CHECK(scene.world.ends.empty());
  SECTION("its node tells that it has started") {
    scene.start(scene.world.starts.front());
    scene.run(10s);
    CHECK(scene.world.ends.empty());
  }
  SECTION("its node does not") {
    scene.run(200ms);
    CHECK(scene.world.ends.size() == 1);
  }
}

TEST_CASE("a broker that starts and stands still waits for those of the earlier one until its patience is over",
          "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.greet(2);
  earlier.add_node();
  std::vector<v1::HeldLease> held;
  for (const std::uint64_t client : {1, 2}) {
    auto owned = Scene::actor_of(client, std::to_string(client));
    owned.mutable_spec()->set_detached(false);
    held.push_back(held_by(earlier.spawn(owned)));
  }
  Scene scene{{.last_id = 1'000, .settle = 500ms, .heartbeat = 1s, .link_timeout = 5s}};
  scene.add_node(held);
  scene.stand_still();
  scene.run(patience - 100ms);
  CHECK(scene.world.ends.empty());
  scene.greet(1);
  scene.run(200ms);
  REQUIRE(scene.world.ends.size() == 1);
  CHECK(scene.world.ends.back().lease() == held.back().lease().id());
}

TEST_CASE("what a standstill is, and how long others have after it, follows the link timeout", "[broker][core]") {
  Scene scene{{.heartbeat = 200ms, .link_timeout = 1s}};
  scene.add_node();
  // Nobody gives the broker up for that.
  scene.world.time += 700ms;
  scene.run(1s);
  CHECK(scene.count("stood_still") == 0);
  scene.world.time += 900ms;
  scene.core.peer_down(scene.node_peer);
  CHECK(scene.count("stood_still") == 1);
  // Two link timeouts, and the longest pause between attempts to connect.
  scene.run(2900ms);
  CHECK(scene.count("node_lost") == 0);
  scene.run(200ms);
  CHECK(scene.count("node_lost") == 1);

  Scene slow{{.heartbeat = 500ms, .link_timeout = 1s}};
  slow.world.time += 700ms;
  slow.run(10s);
  CHECK(slow.count("stood_still") == 0);
  slow.world.time += 1s;
  slow.run(1s);
  CHECK(slow.count("stood_still") == 1);
}

TEST_CASE("a node that was restarted while the broker stood still is taken at once", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  const auto peer = scene.add_node("n0", 7);
  scene.spawn(1, "a");
  scene.stand_still();
  scene.core.peer_down(peer);
  CHECK(scene.count("node_away") == 1);
  scene.add_node("n0", 8);
  CHECK(scene.count("node_lost") == 1);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().restarts() == 1);
  scene.run(10s);
  CHECK(scene.core.state({}).nodes_size() == 1);
}

TEST_CASE("nothing is placed on nodes that have not come back after the broker stood still", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  const auto away = scene.add_node("n0", 7);
  scene.add_node("n1", 8);
  scene.stand_still();
  scene.core.peer_down(away);
  CHECK(scene.count("node_away") == 1);
  // Both have as much room, and n0 comes first by its name.
  CHECK(scene.spawn(1, "a").lease().node() == "n1");
  auto wanted = Scene::actor_of(1, "b");
  wanted.mutable_request()->set_node("n0");
  scene.ask(wanted);
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.core.state({}).queue(0).reason().find("node n0 is away") != std::string::npos);
  scene.add_node("n0", 7);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().lease().node() == "n0");
  CHECK(scene.spawn(1, "c").lease().node() == "n0");
  CHECK(scene.count("lost") == 0);
  CHECK(scene.count("restarting") == 0);
}

TEST_CASE("what was on a node that does not come back is not placed on another that does not", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  const auto first = scene.add_node("n0", 7);
  scene.spawn(1, "a");
  const auto second = scene.add_node("n1", 8);
  scene.stand_still();
  scene.core.peer_down(first);
  scene.core.peer_down(second);
  scene.run(patience);
  CHECK(scene.count("node_lost") == 2);
  CHECK(scene.count("restarting") == 1);
  CHECK(scene.world.starts.size() == 1);
  scene.add_node("n2", 9);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().lease().node() == "n2");
  CHECK(scene.world.starts.back().restarts() == 1);
}

TEST_CASE("a node that was stopped is told from one that was lost", "[broker][core]") {
  Scene scene{watched};
  scene.greet(1);
  scene.add_node();
  scene.spawn(1, "a", {}, 0);
  v1::Goodbye goodbye;
  goodbye.set_node("n0");
  // Of another process, which was refused under this name.
  goodbye.set_agent(8);
  scene.core.goodbye(goodbye);
  CHECK(scene.core.state({}).nodes(0).state() == "ok");
  goodbye.set_agent(7);
  scene.core.goodbye(goodbye);
  CHECK(scene.core.state({}).nodes(0).state() == "draining");
  // Nobody waits for its return, even if the broker stood still meanwhile.
  scene.stand_still();
  scene.core.peer_down(scene.node_peer);
  const auto state = scene.core.state({});
  CHECK(state.nodes().empty());
  CHECK(state.counters().at("node_left") == 1);
  CHECK(state.counters().count("node_lost") == 0);
  CHECK(scene.last_end() == "node n0 was stopped");

  scene.add_node();
  scene.run(patience);
  scene.core.peer_down(scene.node_peer);
  CHECK(scene.core.state({}).counters().at("node_lost") == 1);
}

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
  v1::DrainNode drain;
  drain.set_name("n0");
  drain.set_deadline_ms(0);
  REQUIRE(scene.core.drain(drain).has_value());
  CHECK(reason_of(drained) == "node n0 had to be empty by now, and no other node had room for it");
  // It would have lived again elsewhere: who ends it for good is who is told.
  (void)scene.kill("d", 0, Caller{"gpu1", true});
  CHECK(reason_of(killed_late) == "it was killed by gpu1");
  drain.set_resume(true);
  REQUIRE(scene.core.drain(drain).has_value());

  v1::SubmitGroup group;
  group.set_client(1);
  group.set_client_request(++scene.last_request);
  group.add_bundles()->set_cpu_units(10'000);
  v1::ReleaseGroup release;
  scene.core.submit_group(group, {}, BrokerAnswer<v1::GroupInfo>{[&](const Result<v1::GroupInfo>& placed) {
                            release.set_id(must(placed).id());
                          }});
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
    scene.core.types(BrokerCore::TypesAnswer{[&](Result<v1::TypeCatalog> types) {
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
  empty.core.types(BrokerCore::TypesAnswer{[&](const Result<v1::TypeCatalog>&) { ++answers; }});
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
