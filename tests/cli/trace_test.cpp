// Events and leases as a trace: slices, tracks, instants.
#include <apps/gpuactors/trace.hpp>
#include <support/catch.hpp>

#include <set>
#include <string>
#include <vector>

using namespace gpuactors;
using cli::Json;
using cli::trace_of;

namespace {

constexpr std::int64_t start = 1'700'000'000'000'000'000;

/// A lease on a device, or on none.
v1::Lease lease_of(std::uint64_t id, const std::string& name, int device, std::int64_t units) {
  v1::Lease lease;
  lease.set_id(id);
  lease.set_name(name);
  lease.set_node("n0");
  if (device >= 0) {
    auto* grant = lease.add_devices();
    grant->set_index(device);
    grant->set_share_units(units);
    grant->set_memory_bytes(1'000);
  }
  return lease;
}

void add(v1::ClusterState& state, const std::string& kind, std::int64_t microseconds, const v1::Lease* lease,
         const std::string& name = "") {
  auto* event = state.add_events();
  event->set_sequence(static_cast<std::uint64_t>(state.events_size()));
  event->set_kind(kind);
  event->set_unix_ns(start + microseconds * 1'000);
  event->set_name(lease != nullptr ? lease->name() : name);
  if (lease != nullptr)
    *event->mutable_lease() = *lease;
}

std::vector<Json> of_phase(const Json& trace, const std::string& phase) {
  std::vector<Json> chosen;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("ph") == phase)
      chosen.push_back(event);
  return chosen;
}

Json slice_of(const Json& trace, const std::string& name) {
  for (auto& slice : of_phase(trace, "X"))
    if (slice.at("name") == name)
      return slice;
  FAIL("there is no slice " << name);
  return {};
}

} // namespace

TEST_CASE("a lease is a slice from its grant to its end, on the track of its device") {
  v1::ClusterState state;
  const auto a = lease_of(1, "a", 0, 5'000);
  add(state, "node_added", 0, nullptr, "n0");
  add(state, "granted", 10, &a);
  add(state, "spawned", 12, &a);
  add(state, "released", 30, &a);
  const auto trace = trace_of(state, start + 100'000);
  CHECK(of_phase(trace, "X").size() == 1);
  const auto slice = slice_of(trace, "a");
  CHECK(slice.at("ts") == 10.0);
  CHECK(slice.at("dur") == 20.0);
  CHECK(slice.at("args").at("share") == 0.5);
  CHECK(slice.at("args").at("memory_bytes") == "1000");
  CHECK(slice.at("args").at("ended") == "released");
  bool found = false;
  for (const auto& meta : of_phase(trace, "M"))
    found = found
            || (meta.at("name") == "thread_name" && meta.at("tid") == slice.at("tid")
                && meta.at("args").at("name") == "device 0" && meta.at("pid") == slice.at("pid"));
  CHECK(found);
  CHECK(trace.at("otherData").at("begin") == "2023-11-14T22:13:20.000000Z");
}

TEST_CASE("leases that share a device at a time are on different tracks, those after each other on one") {
  v1::ClusterState state;
  const auto a = lease_of(1, "a", 0, 5'000);
  const auto b = lease_of(2, "b", 0, 5'000);
  const auto c = lease_of(3, "c", 0, 5'000);
  const auto d = lease_of(4, "d", 1, 10'000);
  add(state, "granted", 0, &a);
  add(state, "granted", 5, &b);
  add(state, "granted", 6, &d);
  add(state, "released", 10, &a);
  add(state, "granted", 10, &c);
  const auto trace = trace_of(state, start + 20'000);
  const auto track = [&](const std::string& name) { return slice_of(trace, name).at("tid"); };
  CHECK(track("a") == track("c"));
  CHECK(std::set<Json>{track("a"), track("b"), track("d")}.size() == 3);
}

TEST_CASE("what is still held ends now, and what was granted before the log begins with it") {
  v1::ClusterState state;
  const auto old = lease_of(1, "old", 0, 2'500);
  const auto gone = lease_of(2, "gone", 0, 2'500);
  *state.add_leases() = old;
  add(state, "lost", 40, &gone);
  auto trace = trace_of(state, start + 100'000);
  CHECK(slice_of(trace, "old").at("ts") == 0.0);
  CHECK(slice_of(trace, "old").at("dur") == 60.0);
  CHECK(slice_of(trace, "old").at("args").at("ended") == "held");
  CHECK(slice_of(trace, "old").at("args").contains("began"));
  CHECK(slice_of(trace, "gone").at("args").at("ended") == "lost");
  CHECK(of_phase(trace, "i").size() == 1); // that it was lost
  CHECK(of_phase(trace_of(v1::ClusterState{}, start), "X").empty());
}

TEST_CASE("a lease that was lost ends once, although its node releases it later") {
  v1::ClusterState state;
  const auto a = lease_of(1, "a", 0, 5'000);
  add(state, "node_added", 0, nullptr, "n0");
  add(state, "granted", 10, &a);
  add(state, "lost", 30, &a);
  add(state, "released", 50, &a);
  add(state, "out_of_memory", 60, &a);
  const auto trace = trace_of(state, start + 100'000);
  CHECK(of_phase(trace, "X").size() == 1);
  const auto slice = slice_of(trace, "a");
  CHECK(slice.at("ts") == 10.0);
  CHECK(slice.at("dur") == 20.0);
  CHECK(slice.at("args").at("ended") == "lost");
}

TEST_CASE("a lease that a node brings back after it was lost begins anew then") {
  v1::ClusterState state;
  const auto a = lease_of(1, "a", 0, 5'000);
  add(state, "node_added", 0, nullptr, "n0");
  add(state, "granted", 10, &a);
  add(state, "lost", 30, &a);
  add(state, "adopted", 50, &a);
  *state.add_leases() = a;
  auto slices = of_phase(trace_of(state, start + 100'000), "X");
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].at("dur") == 20.0);
  CHECK(slices[1].at("ts") == 50.0);
  CHECK(slices[1].at("dur") == 50.0);
  CHECK(slices[1].at("args").at("ended") == "held");
  CHECK_FALSE(slices[1].at("args").contains("began"));
  add(state, "released", 70, &a);
  state.clear_leases();
  slices = of_phase(trace_of(state, start + 100'000), "X");
  REQUIRE(slices.size() == 2);
  CHECK(slices[1].at("dur") == 20.0);
  CHECK(slices[1].at("args").at("ended") == "released");
}

TEST_CASE("a lease without devices is on a track of its node, one of several devices on each of theirs") {
  v1::ClusterState state;
  const auto none = lease_of(1, "none", -1, 0);
  auto two = lease_of(2, "two", 0, 10'000);
  *two.add_devices() = two.devices(0);
  two.mutable_devices(1)->set_index(1);
  add(state, "granted", 0, &none);
  add(state, "granted", 1, &two);
  const auto trace = trace_of(state, start + 10'000);
  CHECK(of_phase(trace, "X").size() == 3);
  CHECK(!slice_of(trace, "none").at("args").contains("share"));
}

TEST_CASE("events of no lease are instants of the broker") {
  v1::ClusterState state;
  add(state, "died", 7, nullptr, "c0");
  state.mutable_events(0)->set_reason("why");
  const auto trace = trace_of(state, start + 10'000);
  const auto instants = of_phase(trace, "i");
  REQUIRE(instants.size() == 1);
  CHECK(instants[0].at("name") == "died c0");
  CHECK(instants[0].at("args").at("reason") == "why");
}
