// What an owner's leases and groups may hold together, and what becomes of what has no room in that.
#include <gpuactors/ledger/queue.hpp>

#include <ledger/fixture.hpp>

using namespace ledger_test;

namespace {

ResourceRequest of(const std::string& owner, ResourceRequest request) {
  request.owner = owner;
  return request;
}

void set(Fixture& f, const std::string& owner, double gpus) {
  f.events = f.take(f.ledger.set_quota(owner, *Share::from_double(gpus, "quota"), f.now));
}

Share used(const Fixture& f, const std::string& owner) {
  for (const auto& quota : f.ledger.quotas())
    if (quota.owner == owner)
      return quota.used;
  return {};
}

} // namespace

TEST_CASE("what an owner's quota has no room for waits and says why, and others are served") {
  Fixture f({node_of("n0", 4)});
  set(f, "alice", 1);
  auto first = f.submit(of("alice", gpus(0.75)));
  CHECK(place(first) == "n0:0");
  const auto second = f.submit(of("alice", gpus(0.5)));
  CHECK(place(second) == "pending: the quota of \"alice\" is 1 device, it holds 0.75, and this is for 0.5 more");
  // Younger and for more, but within their own.
  CHECK(f.submit(of("bob", gpus(2))).kind == Kind::granted);
  CHECK(f.submit(gpus(0.5)).kind == Kind::granted);
  // And so is what fits beside the first.
  CHECK(f.submit(of("alice", gpus(0.25))).kind == Kind::granted);
  CHECK(used(f, "alice") == Share::whole(1));
  CHECK(f.ledger.over_quota(second.request) == "alice");
  CHECK_FALSE(f.ledger.could_be_served(second.request));
  const auto events = f.release(first);
  REQUIRE(events.size() == 2);
  CHECK(events.back().request == second.request);
  CHECK(used(f, "alice") == Share{7'500});
}

TEST_CASE("what is kept of lost leases counts as their owner's") {
  Fixture f({node_of("n0", 4)});
  set(f, "alice", 4);
  const auto pair = f.submit(of("alice", gpus(2)));
  GroupRequest group;
  group.owner = "alice";
  group.bundles = {gpus(2)};
  const auto id = f.submit_group(group).group;
  auto within = gpus(2);
  within.group = id;
  const auto inside = f.submit(of("bob", within));
  REQUIRE(inside.kind == Kind::granted);
  f.take(f.ledger.fail_device("n0", pair.lease->devices.front().index, f.now, Holders::stay));
  f.take(f.ledger.fail_device("n0", inside.lease->devices.front().index, f.now, Holders::stay));
  // The bundle is gone, and what is kept of the lease in it is its group's.
  CHECK(used(f, "alice") == Share::whole(2));
  CHECK(used(f, "bob") == Share{});
  f.release(pair);
  CHECK(used(f, "alice") == Share::whole(1));
  // Now the group has a place again.
  const auto events = f.release(inside);
  REQUIRE(events.size() == 2);
  CHECK(events.back().group == id);
  CHECK(used(f, "alice") == Share::whole(2));
}

TEST_CASE("what no owner's quota could ever have room for is infeasible, with the numbers") {
  Fixture f({node_of("n0", 4)});
  set(f, "*", 1.5);
  CHECK(place(f.submit(of("alice", gpus(2))))
        == "infeasible: the quota of \"alice\" is 1.5 devices, and this is for 2: ask for less, or have the quota "
           "raised");
  GroupRequest pair;
  pair.owner = "alice";
  pair.bundles = {gpus(1), gpus(0.75)};
  CHECK(f.submit_group(pair).reason.find("this is for 1.75") != std::string::npos);
  CHECK(f.submit(of("alice", memory(200))).reason.find("quota") == std::string::npos);
  // Who has a quota of its own is not bounded by that of all.
  set(f, "bob", 3);
  CHECK(f.submit(of("bob", gpus(3))).kind == Kind::granted);
}

TEST_CASE("a request for memory alone goes where its share has room in the quota") {
  auto small = node_of("n0", 1, 100);
  small.devices.push_back({"", 1'000, ""});
  Fixture f({small});
  set(f, "alice", 0.3);
  // Half of the small device would leave less.
  CHECK(place(f.submit(of("bob", memory(50)))) == "n0:0");
  CHECK(place(f.submit(of("alice", memory(50)))) == "n0:1");
  CHECK(used(f, "alice") == Share{500});
  CHECK(place(f.submit(of("alice", memory(400))))
        == "infeasible: the quota of \"alice\" is 0.3 devices, and this is for 400 bytes (400 B), which take more of "
           "each "
           "device that has them: ask for less, or have the quota raised");
  const auto waiting = f.submit(of("alice", memory(290)));
  CHECK(waiting.kind == Kind::pending);
  CHECK(waiting.reason == "the quota of \"alice\" is 0.3 devices, it holds 0.05, and this is for at least 0.29 more");
  // It waits for what its owner holds, not for others.
  CHECK(f.ledger.over_quota(waiting.request) == "alice");
  CHECK_FALSE(f.ledger.could_be_served(waiting.request));
}

TEST_CASE("what comes back anywhere makes room for what waits elsewhere") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  set(f, "alice", 1);
  auto first = of("alice", gpus(1));
  first.node = "n0";
  const auto held = f.submit(first);
  auto second = first;
  second.node = "n1";
  const auto waiting = f.submit(second);
  CHECK(waiting.kind == Kind::pending);
  const auto events = f.release(held);
  CHECK(events.back().request == waiting.request);
  CHECK(place(events.back()) == "n1:0");
}

TEST_CASE("no place is held back for a request that its owner's quota keeps waiting") {
  Fixture f({node_of("n0", 2)});
  set(f, "alice", 1);
  auto small = f.submit(of("alice", gpus(0.5)));
  const auto whole = f.submit(of("alice", gpus(1)));
  CHECK(whole.kind == Kind::pending);
  f.advance(seconds{100});
  CHECK(f.ledger.reservations().empty());
  CHECK(f.submit(gpus(0.5)).kind == Kind::granted);
  const auto other = f.submit(gpus(1));
  CHECK(other.kind == Kind::granted);
  // With room in the quota, it waits for a place like any other.
  f.release(small);
  f.advance(seconds{100});
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().request == whole.request);
}

TEST_CASE("a reservation ends when its owner's quota is used up by another request, and its place serves others") {
  Fixture f({node_of("n0", 2)});
  set(f, "alice", 1);
  f.submit(gpus(1));
  f.submit(gpus(0.5));
  const auto whole = f.submit(of("alice", gpus(1)));
  f.advance(seconds{2});
  REQUIRE(f.ledger.reservations().size() == 1);
  const auto held_back = f.submit(gpus(0.25));
  CHECK(held_back.kind == Kind::pending);
  auto urgent = of("alice", gpus(0.25));
  urgent.priority = 1;
  CHECK(f.submit(urgent).kind == Kind::granted);
  CHECK(f.ledger.reservations().empty());
  REQUIRE(f.events.size() == 2);
  CHECK(f.events.back().request == held_back.request);
  CHECK(f.ledger.is_pending(whole.request));
}

TEST_CASE("a reservation that a release makes void serves others in the same call") {
  Fixture f({node_of("n0", 2)});
  set(f, "alice", 1);
  const auto held = f.submit(gpus(1));
  f.submit(gpus(1));
  const auto whole = f.submit(of("alice", gpus(1)));
  f.advance(seconds{2});
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().places.front().devices.front().index == 0);
  auto urgent = of("alice", gpus(0.5));
  urgent.priority = 1;
  const auto first = f.submit(urgent);
  const auto behind = f.submit(gpus(0.5));
  const auto events = f.release(held);
  REQUIRE(events.size() == 3);
  CHECK(events[1].request == first.request);
  CHECK(events[2].request == behind.request);
  CHECK(f.ledger.is_pending(whole.request));
  CHECK(f.ledger.reservations().empty());
}

TEST_CASE("a lower quota ends nothing and grants nothing more; a higher one, or none, serves what waits") {
  Fixture f({node_of("n0", 4)});
  set(f, "alice", 2);
  const auto a = f.submit(of("alice", gpus(1)));
  const auto b = f.submit(of("alice", gpus(1)));
  set(f, "alice", 1);
  CHECK(f.events.empty());
  CHECK(used(f, "alice") == Share::whole(2));
  const auto waiting = f.submit(of("alice", gpus(0.5)));
  CHECK(waiting.kind == Kind::pending);
  // Without a device it needs no room.
  CHECK(f.submit(of("alice", ResourceRequest{})).kind == Kind::granted);
  CHECK(f.release(a).size() == 1);
  set(f, "alice", 1.5);
  REQUIRE(f.events.size() == 1);
  CHECK(f.events.front().request == waiting.request);
  const auto more = f.submit(of("alice", gpus(1)));
  CHECK(more.kind == Kind::pending);
  // What waits and can have no room any more is refused.
  auto patient = of("alice", gpus(1));
  patient.wait_for_nodes = true;
  const auto waits = f.submit(patient);
  set(f, "alice", 0.5);
  REQUIRE(f.events.size() == 1);
  CHECK(f.events.front().kind == Kind::infeasible);
  CHECK(f.events.front().request == more.request);
  f.events = f.take(f.ledger.set_quota("alice", std::nullopt, f.now));
  REQUIRE(f.events.size() == 1);
  CHECK(f.events.front().request == waits.request);
  CHECK(f.ledger.set_quota("alice", std::nullopt, f.now).error().code() == Errc::not_found);
  CHECK(f.ledger.set_quota("", Share{}, f.now).error().code() == Errc::invalid_argument);
  CHECK(f.ledger.set_quota("alice", Share{-1}, f.now).error().code() == Errc::invalid_argument);
  CHECK(b.lease.has_value());
}

TEST_CASE("what is lent inside a lease, or drawn from a group, counts once") {
  Fixture f({node_of("n0", 3)});
  set(f, "alice", 2);
  const auto parent = f.submit(of("alice", gpus(1)));
  auto child = of("alice", gpus(0.5));
  child.parent = parent.lease->id;
  // There is room beside it at first; then only inside.
  CHECK_FALSE(f.submit(child).lease->parent);
  child.gpus = Share{7'500};
  CHECK(f.submit(child).lease->parent == parent.lease->id);
  CHECK(used(f, "alice") == Share{15'000});
  GroupRequest group;
  group.owner = "alice";
  group.bundles = {gpus(0.5)};
  CHECK(f.submit_group(group).kind == Kind::granted);
  CHECK(used(f, "alice") == Share::whole(2));
  auto drawn = of("alice", gpus(0.5));
  drawn.group = GroupId{f.last_group};
  CHECK(f.submit(drawn).kind == Kind::granted);
  CHECK(used(f, "alice") == Share::whole(2));
  f.take(f.ledger.release_group(GroupId{f.last_group}, f.now));
  CHECK(used(f, "alice") == Share{15'000});
}

TEST_CASE("a request that waited in vain for a quota says its numbers") {
  Fixture f({node_of("n0", 2)});
  set(f, "alice", 0.5);
  f.submit(of("alice", gpus(0.5)));
  auto hurried = of("alice", gpus(0.25));
  hurried.queue_timeout = seconds{3};
  CHECK(f.submit(hurried).kind == Kind::pending);
  const auto events = f.advance(seconds{3});
  REQUIRE(events.size() == 1);
  CHECK(events.front().code == Errc::no_capacity);
  CHECK(events.front().reason
        == "waited 3 s in vain: the quota of \"alice\" is 0.5 devices, it holds 0.5, and this is for 0.25 more");
}

TEST_CASE("while nodes are expected, nothing is granted to whom a quota bounds, and then what it has room for") {
  Fixture f;
  f.take(f.ledger.expect_nodes(true, f.now));
  set(f, "alice", 1);
  f.take(f.ledger.add_node(node_of("n0", 2), f.now));
  const auto waiting = f.submit(of("alice", gpus(0.5)));
  CHECK(place(waiting)
        == "pending: the quota of \"alice\" is 1 device, and what it holds is known when nodes have had time to come "
           "back");
  CHECK(f.submit(of("bob", gpus(0.5))).kind == Kind::granted);
  CHECK(f.submit(of("alice", ResourceRequest{})).kind == Kind::granted);
  const auto events = f.take(f.ledger.expect_nodes(false, f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().request == waiting.request);
}

TEST_CASE("when nodes are no longer expected, no reason says that they are") {
  Fixture f;
  f.take(f.ledger.expect_nodes(true, f.now));
  set(f, "alice", 1);
  f.take(f.ledger.add_node(node_of("n0", 1), f.now));
  CHECK(f.submit(of("bob", gpus(1))).kind == Kind::granted);
  f.submit(of("alice", gpus(0.5)));
  CHECK(f.submit(of("alice", gpus(0.5))).reason.find("when nodes have had time") != std::string::npos);
  f.take(f.ledger.expect_nodes(false, f.now));
  CHECK(f.submit(of("alice", gpus(0.5))).reason.find("when nodes have had time") == std::string::npos);
}

TEST_CASE("restored leases and groups count, also above the quota") {
  Fixture f({node_of("n0", 4)});
  set(f, "alice", 1);
  Lease lease;
  lease.id = LeaseId{7};
  lease.request = RequestId{7};
  lease.node = "n0";
  lease.devices = {{0, Share::whole(1), 100}};
  lease.owner = "alice";
  REQUIRE(f.ledger.restore(lease));
  GroupRequest group;
  group.owner = "alice";
  group.bundles = {gpus(0.5)};
  REQUIRE(f.ledger.restore_group(GroupId{9}, group, {{0, "n0", {{1, Share{5'000}, 50}}, {}, {}}}, f.now));
  f.ledger.check();
  CHECK(used(f, "alice") == Share{15'000});
  CHECK(f.submit(of("alice", gpus(0.25))).kind == Kind::pending);
}

TEST_CASE("what would wait for its own parents' part of the quota is refused, and says so") {
  Fixture f({node_of("n0", 4)});
  set(f, "alice", 1);
  const auto task = f.submit(of("alice", gpus(0.5)));
  auto child = of("alice", gpus(0.75));
  child.parent = task.lease->id;
  CHECK(
      place(f.submit(child))
      == "infeasible: it would wait for its own parent: the quota of \"alice\" is 1 device, what waits for this holds "
         "0.5, and this is for 0.75");
  // As much of memory alone.
  child.gpus = {};
  child.memory_bytes = 75;
  CHECK(f.submit(child).reason.find("it would wait for its own parent: the quota") == 0);
  child = of("alice", gpus(0.5));
  child.parent = task.lease->id;
  const auto beside = f.submit(child);
  REQUIRE(beside.kind == Kind::granted);
  CHECK_FALSE(beside.lease->parent);
  // Both wait for a grandchild: nothing is left but what they lend.
  child.parent = beside.lease->id;
  CHECK(f.submit(child).lease->parent == beside.lease->id);
  child.gpus = Share{6'000};
  CHECK(f.submit(child).reason.find("what waits for this holds 1, and this is for 0.6") != std::string::npos);
  // What no ancestor holds may be given back.
  const auto other = f.submit(of("bob", gpus(0.5)));
  child.owner = "bob";
  child.parent = other.lease->id;
  CHECK(f.submit(child).kind == Kind::granted);
}

TEST_CASE("the bundles of the group that a task draws from count as held by it") {
  Fixture f({node_of("n0", 4)});
  set(f, "alice", 1);
  GroupRequest group;
  group.owner = "alice";
  group.bundles = {gpus(0.25), gpus(0.5)};
  REQUIRE(f.submit_group(group).kind == Kind::granted);
  auto task = of("alice", gpus(0.25));
  task.group = GroupId{f.last_group};
  const auto drawn = f.submit(task);
  REQUIRE(drawn.kind == Kind::granted);
  auto child = of("alice", gpus(0.3));
  child.parent = drawn.lease->id;
  CHECK(f.submit(child).reason.find("what waits for this holds 0.75, and this is for 0.3") != std::string::npos);
  // Refused at the latest when the quota becomes too low.
  auto last = of("alice", gpus(0.25));
  REQUIRE(f.submit(last).kind == Kind::granted);
  child.gpus = Share{2'500};
  child.cpus = Share::whole(1);
  const auto waits = f.submit(child);
  CHECK(waits.kind == Kind::pending);
  set(f, "alice", 0.9);
  REQUIRE(f.events.size() == 1);
  CHECK(f.events.front().kind == Kind::infeasible);
  CHECK(f.events.front().request == waits.request);
}

TEST_CASE("bundles by memory alone that no quota could ever have room for together are refused, with the sum") {
  Fixture f({node_of("n0", 2, 1'000)});
  set(f, "alice", 0.3);
  GroupRequest group;
  group.owner = "alice";
  group.bundles = {memory(200), memory(200)};
  CHECK(
      f.submit_group(group).reason
      == "the quota of \"alice\" is 0.3 devices, and this is for at least 0.4: ask for less, or have the quota raised");
  group.bundles = {memory(500)};
  CHECK(f.submit_group(group).reason.find("the quota of \"alice\" is 0.3 devices, and this is for at least 0.5") == 0);
  // Now there is no room; it does not say that the bundles do not fit together.
  set(f, "alice", 0.5);
  const auto held = f.submit(of("alice", gpus(0.2)));
  group.bundles = {memory(200), memory(200)};
  const auto waiting = f.submit_group(group);
  CHECK(waiting.kind == Kind::pending);
  CHECK(waiting.reason == "the quota of \"alice\" is 0.5 devices, it holds 0.2, and this is for at least 0.4 more");
  CHECK(f.ledger.over_quota(waiting.group) == "alice");
  f.advance(seconds{100});
  CHECK(f.ledger.reservations().empty());
  const auto events = f.release(held);
  CHECK(events.back().group == waiting.group);
  CHECK(events.back().kind == Kind::granted);
}

TEST_CASE("no places are held back for bundles that take more of a quota together than there is") {
  auto mixed = node_of("n0", 1, 100);
  mixed.devices.push_back({"", 1'000, ""});
  Fixture f({mixed});
  set(f, "alice", 0.6);
  REQUIRE(f.submit(of("bob", gpus(2))).kind == Kind::granted);
  GroupRequest group;
  group.owner = "alice";
  group.bundles = {memory(50), memory(50)};
  const auto waiting = f.submit_group(group);
  CHECK(waiting.kind == Kind::pending);
  CHECK(waiting.reason.find(", within the 0.6 that the quota of \"alice\" has left") != std::string::npos);
  // On the small device, where they would go first, they are a whole one.
  f.advance(seconds{100});
  CHECK(f.ledger.reservations().empty());
}

TEST_CASE("a place that is held back for memory alone ends when the quota has no room for its share") {
  Fixture f({node_of("n0", 2, 1'000)});
  set(f, "alice", 0.3);
  f.submit(of("bob", gpus(1)));
  f.submit(of("bob", gpus(0.9)));
  const auto waiting = f.submit(of("alice", memory(290)));
  CHECK(waiting.kind == Kind::pending);
  f.advance(seconds{2});
  REQUIRE(f.ledger.reservations().size() == 1);
  auto urgent = of("alice", gpus(0.05));
  urgent.priority = 1;
  REQUIRE(f.submit(urgent).kind == Kind::granted);
  CHECK(f.ledger.over_quota(waiting.request) == "alice");
  CHECK(f.ledger.reservations().empty());
}

TEST_CASE("what waits in vain waits for nothing that its owner holds") {
  Fixture f({node_of("n0", 4)});
  set(f, "alice", 1);
  auto patient = of("alice", gpus(2));
  patient.wait_for_nodes = true;
  const auto waiting = f.submit(patient);
  CHECK(waiting.kind == Kind::pending);
  CHECK_FALSE(f.ledger.over_quota(waiting.request));
  CHECK(f.ledger.waits_in_vain(waiting.request));
  CHECK_FALSE(f.ledger.could_be_served(waiting.request));
  GroupRequest group;
  group.owner = "alice";
  group.bundles = {gpus(1), gpus(1)};
  group.wait_for_nodes = true;
  const auto pair = f.submit_group(group);
  CHECK_FALSE(f.ledger.over_quota(pair.group));
  CHECK(f.ledger.waits_in_vain(pair.group));
  set(f, "alice", 4);
  CHECK(f.events.size() == 2);
}

TEST_CASE("a quota that grows wakes only what had no room in it before") {
  using namespace gpuactors::ledger_detail;
  Queue queue;
  const auto add = [&](double amount) {
    const auto request = of("alice", gpus(amount));
    Prospect prospect;
    prospect.charge = request.gpus.units();
    Entry entry;
    entry.key = queue.next_key(0);
    entry.request = RequestId{entry.key.age};
    entry.shape = &queue.shape_of({request, {}}, prospect);
    queue.add(std::move(entry));
    return entry.shape;
  };
  add(0.25);
  auto* const large = add(0.75);
  auto* const whole = add(1);
  const auto& wakes = queue.wakes();
  CHECK(wakes.next_of("alice", nullptr, 7'500).second != large);
  const auto [key, shape] = wakes.next_of("alice", nullptr, 10'000, 2'500);
  CHECK(shape == large);
  CHECK(wakes.next_of("alice", &key, 10'000, 2'500).second == whole);
  CHECK(wakes.next_of("alice", nullptr, 7'500, 7'500).second == nullptr);
}
