// Parts of the broker's core, each alone.
#include <gpuactors/broker/core/arrivals.hpp>
#include <gpuactors/broker/core/early_calls.hpp>
#include <gpuactors/broker/core/emptying_pace.hpp>
#include <gpuactors/broker/core/ended_actors.hpp>
#include <gpuactors/broker/core/kept_leases.hpp>
#include <gpuactors/broker/core/reminders.hpp>
#include <gpuactors/broker/core/standstill.hpp>
#include <gpuactors/broker/core/state_keeper.hpp>
#include <gpuactors/broker/core/turns.hpp>

#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

#include <memory>
#include <string>
#include <variant>
#include <vector>

using namespace broker_test;
using Catch::Matchers::Contains;

namespace {

constexpr TimePoint start{1h};

/// An answer that writes down what it was told: "ok", or the error's text.
template <class T>
BrokerAnswer<T> told_to(std::vector<std::string>& told) {
  return BrokerAnswer<T>{
      [&told](const Result<T>& result) { told.push_back(result ? std::string{"ok"} : result.error().message()); }};
}

Arrival arrival_of(const std::string& node, std::uint64_t agent, std::vector<std::string>& told) {
  Arrival arrival;
  arrival.message.mutable_node()->set_name(node);
  arrival.message.set_agent(agent);
  arrival.answer = told_to<void>(told);
  return arrival;
}

v1::HeldAhead part_of(std::uint64_t registration, std::initializer_list<std::uint64_t> leases) {
  v1::HeldAhead part;
  part.set_node("n0");
  part.set_agent(7);
  part.set_registration(registration);
  for (const auto lease : leases)
    part.add_held()->mutable_lease()->set_id(lease);
  return part;
}

v1::RegisterNode registration_of(std::uint64_t number, std::uint32_t held_ahead) {
  v1::RegisterNode message;
  message.mutable_node()->set_name("n0");
  message.set_agent(7);
  message.set_registration(number);
  message.set_held_ahead(held_ahead);
  return message;
}

} // namespace

// -- reminders ------------------------------------------------------------------------------------

TEST_CASE("reminders are taken in the order of their times, and only the first asks for a wake-up", "[broker][core]") {
  Reminders reminders;
  CHECK(reminders.add({start + 2s, ActorId{1}}));
  CHECK_FALSE(reminders.add({start + 3s, ActorId{2}}));
  CHECK(reminders.add({start + 1s, ActorId{3}}));
  CHECK_FALSE(reminders.add({never, ActorId{4}}));
  CHECK_FALSE(reminders.add({start + 2s, ActorId{5}}));
  reminders.remove({start + 2s, ActorId{5}});
  CHECK_FALSE(reminders.wake(start));
  REQUIRE(reminders.wake(start + 1s));
  const auto taken = [&](TimePoint now) {
    const auto due = reminders.take(now);
    return due ? due->actor : ActorId{};
  };
  CHECK(taken(start + 1s) == ActorId{3});
  CHECK(taken(start + 1s) == ActorId{});
  // The next one is 2 s, for which a wake-up is under way: it counts if it is asked for again.
  REQUIRE(reminders.first());
  CHECK(reminders.add(*reminders.first()));
  REQUIRE(reminders.wake(start + 2s));
  CHECK(taken(start + 2s) == ActorId{1});
  REQUIRE(reminders.first());
  CHECK(reminders.add(*reminders.first()));
  CHECK_FALSE(reminders.wake(start + 2s)); // of the reminder that was overtaken and is done
  REQUIRE(reminders.wake(start + 3s));
  CHECK(taken(start + 3s) == ActorId{2});
  CHECK_FALSE(reminders.first());
}

// -- turns ----------------------------------------------------------------------------------------

TEST_CASE("turns become longer while they help nobody, and short again when they do", "[broker][core]") {
  Turns turns;
  auto now = start;
  const auto next = [&](std::uint64_t oldest) {
    REQUIRE(turns.end(now));
    turns.look({RequestId{oldest}, {}});
    const auto length = turns.begin(now);
    REQUIRE(length);
    now += *length;
    return *length;
  };
  CHECK(*turns.begin(now) == limits::lease_turn);
  CHECK_FALSE(turns.begin(now));
  now += limits::lease_turn;
  CHECK(next(1) == limits::lease_turn);
  CHECK(next(1) == 2 * limits::lease_turn);
  CHECK(next(1) == 4 * limits::lease_turn);
  for (int i = 0; i < 20; ++i)
    next(1);
  CHECK(next(1) == 10s);
  CHECK(next(2) == limits::lease_turn);
}

TEST_CASE("a long turn is cut short by what comes to wait, and its own end is stale then", "[broker][core]") {
  Turns turns;
  auto now = start;
  (void)turns.begin(now);
  CHECK_FALSE(turns.cut_short(now)); // it is as short as can be
  now += limits::lease_turn;
  REQUIRE(turns.end(now));
  turns.look({std::nullopt, {{"ann", {"", 1}}}});
  CHECK(turns.over_quotas().count("ann") == 1);
  now += *turns.begin(now);
  REQUIRE(turns.end(now));
  turns.look({std::nullopt, {{"ann", {"", 1}}}});
  const auto length = turns.begin(now);
  REQUIRE(length == 2 * limits::lease_turn);
  const auto later = now + *length - Duration{1};
  CHECK(turns.cut_short(later) == limits::lease_turn);
  CHECK_FALSE(turns.end(now + *length));
  CHECK(turns.end(later + limits::lease_turn));
  CHECK_FALSE(turns.end(later + 1min)); // there is none any more
}

TEST_CASE("turns are short again when somebody waits after a time in which nobody did", "[broker][core]") {
  Turns turns;
  for (int i = 0; i < 5; ++i)
    turns.look({RequestId{1}, {}});
  turns.rest({{"ann", {"", 1}}});
  CHECK(turns.over_quotas().count("ann") == 1);
  CHECK(*turns.begin(start) == limits::lease_turn);
}

TEST_CASE("a turn has helped when another request is the first that waits for an owner's quota", "[broker][core]") {
  Turns turns;
  (void)turns.begin(start);
  REQUIRE(turns.end(start + limits::lease_turn));
  for (const std::uint64_t first : {1, 1, 1})
    turns.look({std::nullopt, {{"ann", {"", first}}}});
  CHECK(*turns.begin(start) == 4 * limits::lease_turn);
  turns.look({std::nullopt, {{"ann", {"", 2}}}});
  REQUIRE(turns.end(start + 4 * limits::lease_turn));
  CHECK(*turns.begin(start) == limits::lease_turn);
}

TEST_CASE("nodes that are being emptied are looked at less often while nothing leaves them", "[broker][core]") {
  EmptyingPace pace;
  CHECK(*pace.plan() == 200ms);
  CHECK_FALSE(pace.plan());
  const auto next = [&](std::size_t left) {
    pace.look();
    pace.note(left);
    return *pace.plan();
  };
  CHECK(next(3) == 200ms);
  CHECK(next(3) == 400ms);
  CHECK(next(3) == 800ms);
  CHECK(next(3) == 1s);
  CHECK(next(3) == 1s);
  CHECK(next(2) == 200ms);
}

// -- a broker that stood still --------------------------------------------------------------------

TEST_CASE("a broker stood still when others may have taken it for dead, by either clock", "[broker][core]") {
  const auto machine = [](Duration since) { return Duration{1h} + since; };
  Standstill standstill{1s, 5s};
  CHECK(standstill.is_looked_for());
  CHECK_FALSE(standstill.look({start, machine(0s)})); // it has not begun
  standstill.note({start, machine(0s)});
  CHECK_FALSE(standstill.look({start + 3999ms, machine(3999ms)}));
  CHECK(standstill.patient_until() < start);
  // One look later it counts from the last pulse, not from the last look.
  CHECK(standstill.look({start + 4s, machine(4s)}) == Duration{4s});
  CHECK(standstill.patient_until() == start + 4s + standstill.patience());
  CHECK_FALSE(standstill.look({start + 4s, machine(4s)})); // that one is known
  // A machine that was suspended: one clock stood still, too.
  CHECK(standstill.look({start + 5s, machine(60s)}) == Duration{56s});
}

TEST_CASE("where heartbeats are as rare as links are given up, a late pulse is no standstill", "[broker][core]") {
  Standstill standstill{2s, 4s};
  standstill.note({start, Duration{}});
  CHECK_FALSE(standstill.look({start + 2999ms, 2999ms}));
  CHECK(standstill.look({start + 3s, 3s}));
  CHECK_FALSE(Standstill{1s, 0s}.is_looked_for());
}

// -- a broker that started again ------------------------------------------------------------------

TEST_CASE("early look-ups end with their time and with their client", "[broker][core]") {
  EarlyCalls calls;
  std::vector<std::string> told;
  const auto keep = [&](std::uint64_t client, TimePoint until) {
    v1::FindActor message;
    message.set_client(client);
    calls.keep(EarlyCalls::Find{message, told_to<FoundActor>(told), until}, start);
  };
  keep(1, start + 1s);
  keep(1, never);
  keep(2, never);
  calls.drop_client(2);
  CHECK(told == std::vector<std::string>{"nobody waits for the actor any more"});
  CHECK(calls.take_finds(start + 1s).size() == 1);
  CHECK(told.size() == 2);
  CHECK(calls.take_finds(start + 1s).empty());
}

TEST_CASE("of many early look-ups those are given up that nobody waits for", "[broker][core]") {
  EarlyCalls calls;
  std::vector<std::string> told;
  const auto keep = [&](int count) {
    for (int i = 0; i < count; ++i)
      calls.keep(EarlyCalls::Find{{}, told_to<FoundActor>(told), i % 2 == 0 ? start : never}, start);
  };
  keep(64);
  CHECK(told.empty());
  keep(1);
  CHECK(told.size() == 32);
  // The next look is when there are twice as many as were left.
  keep(31);
  CHECK(told.size() == 32);
  keep(1);
  CHECK(told.size() == 32 + 17);
}

TEST_CASE("what a node sends ahead counts with the registration that it is for", "[broker][core]") {
  Arrivals arrivals;
  arrivals.add_ahead(part_of(2, {1, 2}));
  arrivals.add_ahead(part_of(1, {9})); // late, from a connection that was lost
  auto message = registration_of(2, 3);
  CHECK_THAT(arrivals.complete(message).error().message(), Contains("has to register again"));
  arrivals.add_ahead(part_of(2, {3}));
  REQUIRE(arrivals.complete(message));
  CHECK(message.held_size() == 3);
  // It is used up.
  auto again = registration_of(2, 3);
  CHECK(code_of(arrivals.complete(again)) == Errc::unavailable);
  arrivals.add_ahead(part_of(2, {1}));
  arrivals.add_ahead(part_of(3, {4}));
  auto newer = registration_of(3, 1);
  REQUIRE(arrivals.complete(newer));
  CHECK(newer.held(0).lease().id() == 4);
  // Who registers under a name ends what others have sent under it.
  auto other = part_of(4, {5});
  other.set_agent(8);
  arrivals.add_ahead(other);
  auto last = registration_of(5, 0);
  REQUIRE(arrivals.complete(last));
  auto late = registration_of(4, 1);
  late.set_agent(8);
  CHECK(code_of(arrivals.complete(late)) == Errc::unavailable);
}

TEST_CASE("a node that registers again, or leaves, is told so; reports wait for those that hold the lease",
          "[broker][core]") {
  Arrivals arrivals;
  std::vector<std::string> told;
  arrivals.add(arrival_of("n0", 7, told));
  arrivals.add(arrival_of("n0", 8, told));
  auto another = arrival_of("n0", 7, told);
  auto& held = *another.message.add_held()->mutable_lease();
  held.set_id(5);
  held.set_epoch(2);
  arrivals.add(std::move(another));
  CHECK(told == std::vector<std::string>{"the node has registered again since"});
  v1::LeaseEnded ended;
  ended.set_lease(5);
  ended.set_epoch(1);
  CHECK_FALSE(arrivals.postpone(ended));
  ended.set_epoch(2);
  CHECK(arrivals.postpone(ended));
  v1::HolderUsage tasks;
  tasks.set_node("n0");
  tasks.set_agent(9);
  CHECK_FALSE(arrivals.postpone_tasks(tasks));
  tasks.set_agent(7);
  CHECK(arrivals.postpone_tasks(tasks));
  tasks.add_tasks()->set_name("the latest");
  CHECK(arrivals.postpone_tasks(tasks));
  std::size_t of_this_name = 0;
  arrivals.each_of("n0", [&](const Arrival&) { ++of_this_name; });
  arrivals.each_of("n1", [&](const Arrival&) { ++of_this_name; });
  CHECK(of_this_name == 2);
  arrivals.leave("n0", 8);
  CHECK(told.back() == "the node is being stopped");
  CHECK(arrivals.has("n0"));
  CHECK_FALSE(arrivals.has("n1"));
  const auto all = arrivals.take();
  REQUIRE(all.size() == 1);
  REQUIRE(all.front().reports.size() == 2);
  CHECK(std::get<v1::HolderUsage>(all.front().reports.back()).tasks_size() == 1);
  CHECK(arrivals.empty());
}

// -- what is kept ---------------------------------------------------------------------------------

TEST_CASE("a bounded number of actors that have ended is remembered, by number and by name", "[broker][core]") {
  EndedActors ended;
  for (std::uint64_t id = 1; id <= limits::ended_actors + 1; ++id) {
    auto& entry = ended.add();
    entry.mutable_actor()->set_id(id);
    entry.mutable_actor()->set_type("counter");
    entry.mutable_actor()->set_name(id % 2 == 0 ? "even" : "odd");
    entry.set_reason("it was killed");
  }
  CHECK(ended.find(1) == nullptr);
  CHECK(ended.how_ended(1) == "actor 1 has ended");
  CHECK(ended.how_ended(2) == "actor even (counter) has ended: it was killed");
  CHECK(ended.find("", "even")->actor().id() == (limits::ended_actors + 1) / 2 * 2);
  CHECK(ended.find("elsewhere", "even") == nullptr);
  std::vector<std::uint64_t> latest;
  ended.for_each_latest(2, [&](const v1::EndedActor& entry) {
    latest.push_back(entry.actor().id());
    return true;
  });
  CHECK(latest == std::vector<std::uint64_t>{limits::ended_actors + 1, limits::ended_actors});
  ended.for_each_latest(2, [&](const v1::EndedActor&) {
    latest.clear();
    return false;
  });
  CHECK(latest.empty());
  auto& nameless = ended.add();
  nameless.mutable_actor()->set_id(9);
  nameless.mutable_actor()->set_type("counter");
  nameless.set_reason("it was killed");
  CHECK(ended.how_ended(9) == "actor 9 (counter) has ended: it was killed");
}

TEST_CASE("changes of one burst are written together, and once more when that fails", "[broker][core]") {
  World world;
  world.time = start;
  EventLog log{world};
  const auto store = std::make_shared<MemoryStore>();
  StateKeeper keeper{world, log, store, 0};
  keeper.put(StateSection::nodes, "n0", "drained");
  keeper.put(StateSection::nodes, "n1", "drained");
  CHECK(world.wakes.size() == 1);
  store->is_full = true;
  REQUIRE(world.next(start) == Wake::commit);
  keeper.commit();
  CHECK(must(store->load(StateSection::nodes)).empty());
  CHECK(world.next(start + 1min) == Wake::commit);
  CHECK(world.time == start + 1s);
  keeper.commit(); // the same error again is no second event
  CHECK(log.counts().at("error") == 1);
  store->is_full = false;
  CHECK(world.next(start + 1min) == Wake::commit);
  keeper.commit();
  CHECK(must(store->load(StateSection::nodes)).size() == 2);
  CHECK(world.wakes.empty());
}

TEST_CASE("numbers are recorded in blocks before they are issued", "[broker][core]") {
  World world;
  EventLog log{world};
  const auto store = std::make_shared<MemoryStore>();
  StateKeeper keeper{world, log, store, 0};
  const auto reserved = [&] {
    keeper.commit();
    return must(store->load(StateSection::ids)).front().value;
  };
  keeper.reserve_ids(5);
  CHECK(reserved() == std::to_string(5 + (1 << 20)));
  keeper.reserve_ids(1 << 19);
  CHECK(reserved() == std::to_string(5 + (1 << 20)));
  keeper.reserve_ids((1 << 19) + 6);
  CHECK(reserved() == std::to_string((1 << 19) + 6 + (1 << 20)));
}

TEST_CASE("actors that no later broker may take are known to the next one, a bounded number of them",
          "[broker][core]") {
  World world;
  EventLog log{world};
  const auto store = std::make_shared<MemoryStore>();
  {
    StateKeeper keeper{world, log, store, 0};
    for (std::uint64_t id = 1; id <= limits::buried_actors + 1; ++id)
      keeper.bury(ActorId{id});
    keeper.commit();
  }
  StateKeeper next{world, log, store, limits::buried_actors + 1};
  const auto buried = next.load_buried();
  CHECK(buried.size() == limits::buried_actors);
  CHECK_FALSE(buried.contains(ActorId{1}));
}

TEST_CASE("of actors that no later broker may take, the one that ended first is forgotten, however old it was",
          "[broker][core]") {
  World world;
  EventLog log{world};
  const auto store = std::make_shared<MemoryStore>();
  {
    StateKeeper keeper{world, log, store, 0};
    for (std::uint64_t id = 2; id <= limits::buried_actors + 1; ++id)
      keeper.bury(ActorId{id});
    keeper.bury(ActorId{1}); // it had lived for long
    keeper.commit();
  }
  StateKeeper next{world, log, store, limits::buried_actors + 1};
  CHECK(next.load_buried().contains(ActorId{1}));
  next.bury(ActorId{limits::buried_actors + 2});
  next.commit();
  const auto buried = StateKeeper{world, log, store, limits::buried_actors + 2}.load_buried();
  CHECK(buried.size() == limits::buried_actors);
  CHECK(buried.contains(ActorId{1}));
  CHECK_FALSE(buried.contains(ActorId{3}));
}

TEST_CASE("what is promised is answered when it is written, and fails if it cannot be", "[broker][core]") {
  World world;
  EventLog log{world};
  const auto store = std::make_shared<MemoryStore>();
  StateKeeper keeper{world, log, store, 0};
  std::vector<std::string> told;
  keeper.when_kept(told_to<void>(told)).deliver({}); // nothing is to be written
  CHECK(told == std::vector<std::string>{"ok"});
  keeper.put(StateSection::nodes, "n0", "drained");
  keeper.when_kept(told_to<void>(told)).deliver(fail(Errc::not_found, "there is none"));
  keeper.when_kept(keeper.when_kept(told_to<void>(told))).deliver({});
  CHECK(told.size() == 2);
  store->is_full = true;
  keeper.commit();
  REQUIRE(told.size() == 3);
  CHECK_THAT(told.back(), Contains("the disk is full"));
  keeper.when_kept(told_to<void>(told)).deliver({}); // it is still not written
  CHECK(told.size() == 3);
  store->is_full = false;
  keeper.commit();
  REQUIRE(told.size() == 4);
  CHECK(told.back() == "ok");
}

TEST_CASE("whatever waits sees only the leases that it could ask for", "[broker][core]") {
  KeptLeases kept;
  kept.add("alice", "1/a", LeaseId{1});
  kept.add("alice", "1/a", LeaseId{2});
  kept.add("alice", "2/b", LeaseId{3});
  kept.add("bob", "3/c", LeaseId{4});
  using Ids = std::vector<LeaseId>;
  CHECK(kept.others("") == Ids{LeaseId{1}, LeaseId{2}, LeaseId{3}, LeaseId{4}});
  CHECK(kept.others("1/a") == Ids{LeaseId{3}, LeaseId{4}});
  CHECK(kept.others_of("alice", "1/a") == Ids{LeaseId{3}});
  CHECK(kept.others_of("carol", "").empty());
  kept.remove("alice", "1/a", LeaseId{1});
  kept.remove("alice", "1/a", LeaseId{1});
  kept.remove("bob", "3/c", LeaseId{4});
  CHECK(kept.others("") == Ids{LeaseId{2}, LeaseId{3}});
}

TEST_CASE("a broker without a store keeps nothing", "[broker][core]") {
  World world;
  EventLog log{world};
  StateKeeper keeper{world, log, nullptr, 0};
  keeper.put(StateSection::nodes, "n0", "drained");
  keeper.erase(StateSection::nodes, "n0");
  keeper.reserve_ids(1);
  keeper.bury(ActorId{1});
  keeper.commit();
  keeper.each<v1::StoredNode>(StateSection::nodes,
                              [](const StateKey&, const v1::StoredNode&) { FAIL("there is none"); });
  CHECK_FALSE(keeper.keeps());
  CHECK(keeper.load_buried().empty());
  CHECK(world.wakes.empty());
}

TEST_CASE("an entry of the store that cannot be read is an event, and the others count", "[broker][core]") {
  World world;
  EventLog log{world};
  const auto store = std::make_shared<MemoryStore>();
  v1::StoredNode drained;
  drained.set_agent(7);
  store->put(StateSection::nodes, "n0", "\xff\xff");
  store->put(StateSection::nodes, "n1", drained.SerializeAsString());
  REQUIRE(store->commit());
  StateKeeper keeper{world, log, store, 0};
  std::vector<std::string> read;
  keeper.each<v1::StoredNode>(StateSection::nodes, [&](const StateKey& key, const v1::StoredNode& stored) {
    read.push_back(std::get<std::string>(key));
    CHECK(stored.agent() == 7);
  });
  CHECK(read == std::vector<std::string>{"n1"});
  CHECK(log.counts().at("error") == 1);
}
