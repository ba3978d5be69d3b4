// What the dashboard computes: parts of devices, problems, events and rates between states, the last minutes.
#include "dashboard_state.hpp"

#include <apps/gpuactors/dashboard/view.hpp>
#include <apps/gpuactors/dashboard/watch.hpp>
#include <support/catch.hpp>

#include <fmt/format.h>

#include <string>

using namespace gpuactors;
using namespace gpuactors::cli::dashboard;
using namespace dashboard_test;
using namespace std::chrono_literals;
using cli::call_rows;

namespace {

constexpr auto now = std::chrono::system_clock::time_point{} + 1h;

std::int64_t nanoseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::nanoseconds{time.time_since_epoch()}.count();
}

std::vector<Problem> problems(const v1::ClusterState& state) {
  return problems_of(state, {}, now);
}

v1::ClusterState with_events(std::int64_t started, std::uint64_t from, std::uint64_t to) {
  v1::ClusterState state;
  state.set_started_unix_ns(started);
  for (auto number = from; number <= to; ++number)
    state.add_events()->set_sequence(number);
  return state;
}

} // namespace

// -- the map of devices ----------------------------------------------------------------------------

TEST_CASE("the parts of a device are its leases, in their order") {
  v1::ClusterState state;
  add_node(state, "n0");
  auto& device = add_device(state, "n0", 3);
  add_lease(state, 1, "a", device, 5'000);
  add_lease(state, 2, "b", device, 2'500);
  take(device, 7'500);
  const auto nodes = nodes_of(state);
  REQUIRE(nodes.size() == 1);
  REQUIRE(nodes[0].devices.size() == 1);
  const auto& parts = nodes[0].devices[0].parts;
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].name == "a");
  CHECK(parts[0].units == 5'000);
  CHECK(parts[0].memory_bytes == gib / 2);
  CHECK(parts[1].name == "b");
}

TEST_CASE("what a lease lends and what is in a group counts as that lease and that group") {
  v1::ClusterState state;
  add_node(state, "n0");
  auto& device = add_device(state, "n0", 0);
  add_lease(state, 1, "parent", device, 5'000);
  add_lease(state, 2, "child", device, 2'500).set_parent(1);
  auto& group = *state.add_groups();
  group.set_id(9);
  group.set_name("pair");
  auto& bundle = *group.add_bundles();
  bundle.set_node("n0");
  bundle.add_devices()->set_share_units(4'000);
  auto& inside = add_lease(state, 3, "inside", device, 3'000);
  inside.set_group(9);
  take(device, 9'000);
  const auto nodes = nodes_of(state);
  const auto& parts = nodes[0].devices[0].parts;
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].name == "group pair");
  CHECK(parts[0].kind == Part::Kind::bundle);
  CHECK(parts[0].about == "bundle 0, 1 lease in it");
  CHECK(parts[1].name == "parent");
  CHECK(parts[1].about == "lease 1, lends to 1");
}

TEST_CASE("all parts together are what is granted: also of leases that are gone, and of many") {
  v1::ClusterState state;
  add_node(state, "n0");
  auto& device = add_device(state, "n0", 0);
  add_lease(state, 2, "child of one that has ended", device, 1'000).set_parent(1);
  for (std::uint64_t id = 3; id < 23; ++id)
    add_lease(state, id, fmt::format("l{}", id), device, 100);
  take(device, 3'000);
  const auto nodes = nodes_of(state);
  const auto& parts = nodes[0].devices[0].parts;
  REQUIRE(parts.size() == most_parts + 1);
  CHECK(parts[most_parts - 1].name == "9 more");
  CHECK(parts[most_parts].name == "others");
  CHECK(parts[most_parts].units == 1'000);
  std::int64_t units = 0;
  for (const auto& part : parts)
    units += part.units;
  CHECK(units == 3'000);
}

TEST_CASE("totals are those of all devices, and nothing is granted of none") {
  v1::ClusterState state;
  CHECK_FALSE(totals_of(state).granted_percent());
  add_node(state, "n0");
  take(add_device(state, "n0", 0), 5'000);
  add_device(state, "n0", 1);
  const auto totals = totals_of(state);
  CHECK(totals.devices == 2);
  CHECK(totals.granted_units == 5'000);
  CHECK(totals.granted_memory_bytes == gib / 2);
  CHECK(totals.granted_percent() == 25);
}

// -- problems --------------------------------------------------------------------------------------

TEST_CASE("a cluster in order has no problems") {
  v1::ClusterState state;
  add_node(state, "n0");
  add_device(state, "n0", 0);
  add_actor(state, 1, "a");
  auto& quota = *state.add_quotas();
  quota.set_owner("*");
  quota.set_gpu_units(0);
  CHECK(problems(state).empty());
}

TEST_CASE("nodes, devices, quotas and clients that are not well are problems, with the command that tells more") {
  v1::ClusterState state;
  add_node(state, "n0").set_state("draining");
  add_node(state, "n1").set_state("away");
  auto& device = add_device(state, "n1", 2);
  device.set_state("failed");
  device.set_reason("XID 79");
  auto& quota = *state.add_quotas();
  quota.set_owner("alice");
  quota.set_gpu_units(5'000);
  quota.set_used_units(5'000);
  state.add_clients()->set_away(true);
  const auto found = problems(state);
  REQUIRE(found.size() == 5);
  CHECK(found[0].text == "Node n0 is drained: it gets nothing new.");
  CHECK(found[1].text == "Node n1 is away: it has lost its connection, and has time to return.");
  CHECK(found[2].text == "Device 2 of node n1 has failed: XID 79. It is out of use until its node is started again.");
  CHECK(found[2].command == "devices");
  CHECK(found[3].text == "The quota of alice is used up: it holds 0.5 of 0.5 devices.");
  CHECK(found[4].text == "1 client has lost the connection to the broker, and has time to return.");
}

TEST_CASE("a state that is not whole is a problem, unless only the past is missing") {
  v1::ClusterState state;
  state.add_incomplete("events");
  CHECK(problems(state).empty());
  state.add_incomplete("leases");
  state.add_incomplete("actors");
  const auto found = problems(state);
  REQUIRE(found.size() == 1);
  CHECK(found[0].text == "Not all is shown, since it is more than one answer has room for: leases, actors.");
}

TEST_CASE("a certificate is a problem in its last three days, or the last sixth of a short life") {
  const auto set = [](v1::CertificateLife& life, std::chrono::system_clock::time_point from,
                      std::chrono::system_clock::time_point until) {
    using std::chrono::duration_cast;
    life.set_from_unix_s(duration_cast<std::chrono::seconds>(from.time_since_epoch()).count());
    life.set_until_unix_s(duration_cast<std::chrono::seconds>(until.time_since_epoch()).count());
  };
  v1::ClusterState state;
  auto& of_broker = *state.mutable_certificate();
  auto& of_node = *add_node(state, "n0").mutable_certificate();
  set(of_broker, now - 1'000h, now + 73h);
  set(of_node, now - 49min, now + 11min);
  CHECK(problems(state).empty());
  set(of_broker, now - 1'000h, now + 72h);
  set(of_node, now - 51min, now + 9min);
  CHECK(problems(state).size() == 2);
  set(of_node, now - 90min, now - 30min);
  const auto found = problems(state);
  REQUIRE(found.size() == 2);
  CHECK(found[0].text
        == "The certificate of the broker ends at 1970-01-04 01:00:00.000 UTC: issue another one (gpuactors certs "
           "issue).");
  CHECK(found[1].text
        == "The certificate of node n0 has ended at 1970-01-01 00:30:00.000 UTC: issue another one (gpuactors certs "
           "issue).");
}

TEST_CASE("a broker that does not stand by any more is a problem") {
  v1::ClusterState state;
  state.mutable_standby()->set_address("10.0.0.2:7711");
  state.mutable_standby()->set_state("following");
  CHECK(problems(state).empty());
  state.mutable_standby()->set_state("away");
  CHECK(problems(state).empty());
  state.mutable_standby()->set_silent_ns(nanoseconds(std::chrono::system_clock::time_point{31s}));
  const auto found = problems(state);
  REQUIRE(found.size() == 1);
  CHECK(
      found[0].text
      == "The broker at 10.0.0.2:7711 does not stand by any more: if this one dies, nobody takes over, or with an old "
         "copy.");
  CHECK(found[0].command == "status");
}

TEST_CASE("a death is a problem for ten minutes, unless somebody wanted it") {
  v1::ClusterState state;
  const auto end = [&](Errc code, std::chrono::system_clock::time_point when) {
    auto& ended = *state.add_ended();
    ended.mutable_actor()->set_name(std::string{to_string(code)});
    ended.mutable_actor()->set_pid(100);
    ended.set_error(static_cast<std::uint32_t>(code));
    ended.set_unix_ns(nanoseconds(when));
    ended.set_reason("why");
  };
  end(Errc::worker_died, now - 9min);
  end(Errc::out_of_memory, now - 11min);
  end(Errc::actor_died, now - 1min);
  end(Errc::cancelled, now - 1min);
  const auto found = problems(state);
  REQUIRE(found.size() == 1);
  CHECK(found[0].text == "Actor worker_died has died at 1970-01-01 00:51:00.000 UTC: worker_died: why");
  CHECK(found[0].command == "actors --ended");
}

TEST_CASE("an actor that has never lived could not be started, unless whoever asked for it was at fault") {
  v1::ClusterState state;
  const auto refuse = [&](const std::string& name, Errc code) -> v1::ActorInfo& {
    auto& ended = *state.add_ended();
    ended.mutable_actor()->set_name(name);
    ended.set_error(static_cast<std::uint32_t>(code));
    ended.set_unix_ns(nanoseconds(now - 1min));
    ended.set_reason("why");
    return *ended.mutable_actor();
  };
  for (const auto code : {Errc::invalid_argument, Errc::not_found, Errc::already_exists, Errc::infeasible})
    refuse("mistaken", code);
  refuse("unborn", Errc::out_of_memory);
  refuse("alive once", Errc::not_found).set_pid(100);
  refuse("restarted", Errc::infeasible).set_restarts(1);
  refuse("stored", Errc::worker_died).set_state("returning");
  const auto found = problems(state);
  REQUIRE(found.size() == 4);
  CHECK(found[0].text == "Actor unborn could not be started at 1970-01-01 00:59:00.000 UTC: out_of_memory: why");
  CHECK(found[1].text == "Actor alive once has died at 1970-01-01 00:59:00.000 UTC: not_found: why");
  CHECK(found[2].text == "Actor restarted has died at 1970-01-01 00:59:00.000 UTC: infeasible: why");
  CHECK(found[3].text == "Actor stored has died at 1970-01-01 00:59:00.000 UTC: worker_died: why");
}

TEST_CASE("events that nothing else tells of are problems while they are recent") {
  std::deque<v1::Event> events(3);
  events[0].set_kind("node_lost");
  events[0].set_unix_ns(nanoseconds(now - 20min));
  events[1].set_kind("node_lost");
  events[1].set_name("n1");
  events[1].set_unix_ns(nanoseconds(now - 1min));
  events[2].set_kind("granted");
  events[2].set_unix_ns(nanoseconds(now));
  const auto found = problems_of({}, events, now);
  REQUIRE(found.size() == 1);
  CHECK(found[0].text == "node_lost n1 at 1970-01-01 00:59:00.000 UTC");
}

// -- events ----------------------------------------------------------------------------------------

TEST_CASE("events are asked for from the first unknown one, and the last of them stay") {
  EventTail tail;
  CHECK(tail.next() == 1);
  tail.take(with_events(1, 1, 3));
  CHECK(tail.next() == 4);
  tail.take(with_events(1, 3, 300)); // one of them again
  CHECK(tail.next() == 301);
  CHECK(tail.events().size() == EventTail::longest);
  CHECK(tail.events().back().sequence() == 300);
  CHECK(tail.events().front().sequence() == 300 - EventTail::longest + 1);
}

TEST_CASE("a broker that was started again has events of its own, which are asked for from the first") {
  EventTail tail;
  tail.take(with_events(1, 1, 3));
  tail.take(with_events(2, 4, 9)); // what the old number brings of the new broker is not all
  CHECK(tail.events().empty());
  CHECK(tail.next() == 1);
  tail.take(with_events(2, 1, 9));
  CHECK(tail.events().size() == 9);
}

// -- calls -----------------------------------------------------------------------------------------

TEST_CASE("rates are differences between two states, and those of new methods count from 0") {
  CallMeter meter;
  v1::ClusterState state;
  add_node(state, "n0");
  auto& actor = add_actor(state, 1, "a");
  count(*actor.add_methods(), 100, 10);
  meter.take(TimePoint{} + 10s, state);
  CHECK(meter.all().ran == 0);
  CHECK_FALSE(meter.rate(call_rows(state)[0]));
  count(*actor.mutable_methods(0), 130, 12);
  auto& other = add_actor(state, 2, "b");
  count(*other.add_methods(), 4, 0);
  meter.take(TimePoint{} + 12s, state);
  CHECK(meter.rate(call_rows(state)[0]) == 15);
  CHECK(meter.rate(call_rows(state)[1]) == 2);
  CHECK(meter.all().ran == 34);
  CHECK(meter.all().failed == 2);
  CHECK(meter.seconds() == 2);
}

TEST_CASE("a new life counts from 0, and no count goes below it") {
  CallMeter meter;
  v1::ClusterState state;
  add_node(state, "n0");
  auto& actor = add_actor(state, 1, "a");
  count(*actor.add_methods(), 100, 10);
  meter.take(TimePoint{} + 10s, state);
  actor.mutable_lease()->set_id(77);
  count(*actor.mutable_methods(0), 3, 1);
  meter.take(TimePoint{} + 11s, state);
  CHECK(meter.all().ran == 3);
  CHECK(meter.all().failed == 1);
  v1::ClusterState of_node;
  count(*add_node(of_node, "n0").add_tasks(), 50, 0);
  CallMeter tasks;
  tasks.take(TimePoint{} + 10s, of_node);
  count(*of_node.mutable_nodes(0)->mutable_tasks(0), 5, 0); // the node was started again
  tasks.take(TimePoint{} + 11s, of_node);
  CHECK(tasks.all().ran == 5);
}

TEST_CASE("counts that had no room in the state before are no calls of this moment") {
  CallMeter meter;
  v1::ClusterState state;
  auto& actor = add_actor(state, 1, "a");
  actor.set_calls(1'000'000);
  meter.take(TimePoint{} + 10s, state);
  count(*actor.add_methods(), 1'000'000, 0);
  meter.take(TimePoint{} + 11s, state);
  CHECK(meter.all().ran == 0);
}

TEST_CASE("what a node brings back with it are no calls of this moment") {
  CallMeter meter;
  v1::ClusterState without;
  add_node(without, "n1");
  auto with = without;
  count(*add_node(with, "n0").add_tasks(), 1'000, 100);
  auto& actor = add_actor(with, 1, "a");
  count(*actor.add_methods(), 500, 50);
  meter.take(TimePoint{} + 10s, with);
  meter.take(TimePoint{} + 11s, without);
  meter.take(TimePoint{} + 12s, with);
  CHECK(meter.all().ran == 0);
  CHECK(meter.all().failed == 0);
  for (const auto& row : call_rows(with))
    CHECK_FALSE(meter.rate(row));
  // From then on they count.
  count(*with.mutable_nodes(1)->mutable_tasks(0), 1'010, 100);
  count(*actor.mutable_methods(0), 507, 51);
  meter.take(TimePoint{} + 13s, with);
  CHECK(meter.all().ran == 17);
  CHECK(meter.all().failed == 1);
}

TEST_CASE("what a broker that was started again hears of is no call of this moment") {
  CallMeter meter;
  v1::ClusterState state;
  state.set_started_unix_ns(1);
  count(*add_node(state, "n0").add_tasks(), 1'000, 0);
  auto& actor = add_actor(state, 1, "a");
  count(*actor.add_methods(), 500, 0);
  const auto whole = state;
  meter.take(TimePoint{} + 10s, state);
  // Its node is there before the actor's counts are.
  state.set_started_unix_ns(2);
  state.mutable_nodes(0)->clear_tasks();
  actor.set_state("returning");
  actor.clear_lease();
  actor.clear_methods();
  meter.take(TimePoint{} + 11s, state);
  CHECK(meter.seconds() == 0);
  state.mutable_actors(0)->CopyFrom(whole.actors(0));
  meter.take(TimePoint{} + 12s, state);
  CHECK(meter.all().ran == 0);
  count(*state.mutable_actors(0)->mutable_methods(0), 501, 0);
  meter.take(TimePoint{} + 13s, state);
  CHECK(meter.all().ran == 1);
}

TEST_CASE("actors and tasks that a state had no room for are no calls of the next moment") {
  CallMeter meter;
  v1::ClusterState state;
  add_node(state, "n0");
  auto& large = *add_node(state, "n1").add_tasks();
  count(large, 1, 0);
  large.set_name(std::string(limits::call_stats_in_state_bytes, 'x'));
  state.add_incomplete("actors");
  meter.take(TimePoint{} + 10s, state);
  state.clear_incomplete();
  count(*state.mutable_nodes(0)->add_tasks(), 1'000, 0);
  count(*add_actor(state, 1, "a").add_methods(), 500, 0);
  meter.take(TimePoint{} + 11s, state);
  CHECK(meter.all().ran == 0);
}

// -- the last minutes ------------------------------------------------------------------------------

TEST_CASE("a slot has the last of its states and the sum of its calls, and old slots go") {
  History history;
  history.add(TimePoint{} + 10s, {.granted_percent = 10, .waiting = 1, .seconds = 1, .calls = 5, .failed = 1});
  history.add(TimePoint{} + 14s, {.granted_percent = 20, .waiting = 2, .seconds = 4, .calls = 5, .failed = 1});
  REQUIRE(history.all().size() == 1);
  CHECK(history.all()[0].sample.granted_percent == 20);
  CHECK(history.all()[0].sample.waiting == 2);
  CHECK(history.all()[0].sample.seconds == 5);
  CHECK(history.all()[0].sample.calls == 10);
  for (int i = 0; i < 500; ++i)
    history.add(TimePoint{} + 15s + i * History::slot_length, {});
  CHECK(history.all().size() == static_cast<std::size_t>(History::slots));
  history.add(TimePoint{} + 24h, {});
  CHECK(history.all().size() == 1);
}

TEST_CASE("a watch asks for what it lacks and keeps what each state adds") {
  Watch watch;
  CHECK(watch.question().events_from == 1);
  auto state = with_events(1, 1, 5);
  add_node(state, "n0");
  take(add_device(state, "n0", 0), 5'000);
  state.add_queue();
  watch.take(moment_at(10s), state);
  CHECK(watch.question().events_from == 6);
  CHECK(watch.question().ended > 0);
  REQUIRE(watch.history().all().size() == 1);
  CHECK(watch.history().all()[0].sample.granted_percent == 50);
  CHECK(watch.history().all()[0].sample.waiting == 1);
  CHECK(watch.history().all()[0].sample.seconds == 0);
}
