// A ledger that is built anew from what is known to run.
#include <ledger/fixture.hpp>

using namespace ledger_test;

namespace {

Lease lease_on(const std::string& node, std::uint64_t id, std::vector<DeviceGrant> devices) {
  Lease lease;
  lease.id = LeaseId{id};
  lease.epoch = id + 100;
  lease.request = RequestId{id + 1000};
  lease.node = node;
  lease.devices = std::move(devices);
  return lease;
}

DeviceGrant half(int index) {
  return {index, Share{5000}, 50};
}

std::string why_not(const Result<void>& result) {
  return result ? "restored" : result.error().message();
}

} // namespace

TEST_CASE("a lease is put back where it was, and later ids and epochs are above it") {
  Fixture f({node_of("n0", 2)});
  auto lease = lease_on("n0", 7, {half(1)});
  lease.cpus = Share::whole(3);
  REQUIRE(f.ledger.restore(lease));
  f.ledger.check();
  CHECK(*f.ledger.find_lease(LeaseId{7}) == lease);
  CHECK(f.ledger.node("n0")->free_cpus == Share::whole(13));
  // Beside it, and not on the idle device.
  const auto next = f.submit(gpus(0.5));
  CHECK(place(next) == "n0:1");
  CHECK(next.lease->id == LeaseId{8});
  CHECK(next.lease->epoch == 108);
  CHECK(f.take(f.ledger.release(LeaseId{7}, 107, f.now)).front().kind == Kind::released);
}

TEST_CASE("a lease that does not fit what is there is refused, and nothing is changed") {
  Fixture f({node_of("n0", 2)});
  REQUIRE(f.ledger.restore(lease_on("n0", 1, {half(0)})));
  const auto refused = [&](const Lease& lease) {
    const auto text = why_not(f.ledger.restore(lease));
    f.ledger.check();
    CHECK(f.ledger.leases().size() == 1);
    return text;
  };
  CHECK(refused(lease_on("n0", 1, {half(1)})) == "lease 1 is already there");
  auto same_request = lease_on("n0", 2, {half(1)});
  same_request.request = RequestId{1001};
  CHECK(refused(same_request) == "lease 2: its request 1001 is already there");
  CHECK(refused(lease_on("n1", 2, {half(0)})) == "lease 2 is on node \"n1\", which is not there: add it first");
  CHECK(refused(lease_on("n0", 2, {half(2)}))
        == "lease 2: device 2 of node n0 is not there: where it comes from has 2 devices");
  CHECK(refused(lease_on("n0", 2, {{0, Share{6000}, 10}}))
        == "lease 2: device 0 of node n0 has 0.5 free, less than its share of 0.6");
  CHECK(refused(lease_on("n0", 2, {{0, Share{5000}, 51}}))
        == "lease 2: device 0 of node n0 has 50 bytes (50 B) free, less than its 51 bytes (51 B)");
  CHECK(refused(lease_on("n0", 2, {{1, Share{}, 0}}))
        == "lease 2: device 1 of node n0: its share is 0: above 0 and at most 1 is allowed");
  CHECK(refused(lease_on("n0", 2, {half(1), half(1)}))
        == "lease 2: device 1 of node n0 comes after device 1: they must ascend");
  auto lease = lease_on("n0", 2, {half(1)});
  lease.cpus = Share::whole(17);
  CHECK(refused(lease) == "lease 2: node n0 has 16 cpus free, it holds 17");
  lease = lease_on("n0", 2, {half(1)});
  lease.resources["neuron_cores"] = Share::whole(1);
  CHECK(refused(lease) == "lease 2: node n0 has 0 neuron_cores free, it holds 1");
  lease = lease_on("n0", 12, {half(1)});
  lease.parent = LeaseId{9};
  CHECK(refused(lease) == "lease 12 was lent by lease 9, which is not there: restore that one first");
  lease = lease_on("n0", 2, {half(1)});
  lease.group = GroupId{4};
  CHECK(refused(lease) == "lease 2 is in bundle 0 of placement group 4, which is not there: restore it first");
  f.take(f.ledger.fail_device("n0", 1, f.now));
  CHECK(refused(lease_on("n0", 2, {half(1)})) == "lease 2: device 1 of node n0 has failed");
}

TEST_CASE("a restored lease still borrows from those who wait for it, over any number of levels") {
  Fixture before({node_of("n0", 1)});
  const auto top = before.submit(gpus(1));
  auto helper = ResourceRequest{};
  helper.parent = top.lease->id;
  const auto middle = before.submit(helper);
  Fixture f({node_of("n0", 1)});
  for (const auto& lease : before.ledger.leases())
    REQUIRE(f.ledger.restore(lease));
  auto wanted = gpus(0.5);
  wanted.parent = middle.lease->id;
  const auto events = f.take(f.ledger.submit(RequestId{100}, wanted, f.now));
  REQUIRE(events.front().kind == Kind::granted);
  CHECK(events.front().lease->parent == top.lease->id);
}

TEST_CASE("a restored lease that does not say who asked for it was asked for by its lender") {
  Fixture f({node_of("n0", 1)});
  REQUIRE(f.ledger.restore(lease_on("n0", 1, {half(0)})));
  auto child = lease_on("n0", 2, {});
  child.parent = LeaseId{1};
  REQUIRE(f.ledger.restore(child));
  CHECK(f.ledger.find_lease(LeaseId{2})->asked_by == LeaseId{1});
  auto wrong = lease_on("n0", 3, {});
  wrong.asked_by = LeaseId{3};
  CHECK(why_not(f.ledger.restore(wrong)) == "lease 3 was asked for by lease 3, which did not exist before it");
}

TEST_CASE("leases that would wait for themselves, or leave no ids, are not restored") {
  Fixture f({node_of("n0", 1)});
  auto older = lease_on("n0", 7, {half(0)});
  older.asked_by = LeaseId{5};
  REQUIRE(f.ledger.restore(older));
  auto younger = lease_on("n0", 5, {});
  younger.parent = LeaseId{7};
  CHECK(why_not(f.ledger.restore(younger)) == "lease 5 was lent by lease 7, which did not exist before it");
  auto both = lease_on("n0", 9, {});
  both.parent = LeaseId{7};
  both.group = GroupId{4};
  CHECK(why_not(f.ledger.restore(both))
        == "lease 9 was lent by lease 7 and is in placement group 4: one of the two is allowed");
  auto last = lease_on("n0", 9, {});
  last.id = LeaseId{~std::uint64_t{0}};
  CHECK(why_not(f.ledger.restore(last))
        == "lease 18446744073709551615 has epoch 109: ids and epochs up to 9223372036854775807 are allowed");
  last = lease_on("n0", 9, {});
  last.epoch = ~std::uint64_t{0};
  CHECK(f.ledger.restore(last).error().code() == Errc::invalid_argument);
  f.ledger.check();
  CHECK(f.ledger.leases().size() == 1);
  // A child that fits nowhere is answered.
  auto child = gpus(3);
  child.parent = LeaseId{7};
  CHECK(f.submit(child).kind == Kind::infeasible);
}

TEST_CASE("a lease that was lent goes back into its lender") {
  Fixture f({node_of("n0", 1)});
  REQUIRE(f.ledger.restore(lease_on("n0", 1, {half(0)})));
  auto child = lease_on("n0", 2, {{0, Share{3000}, 30}});
  child.parent = LeaseId{1};
  REQUIRE(f.ledger.restore(child));
  f.ledger.check();
  CHECK(f.submit(gpus(0.5)).kind == Kind::granted);
  // Half of the device is free again only when both have ended.
  CHECK(f.submit(gpus(0.5)).kind == Kind::pending);
  CHECK(f.take(f.ledger.release(LeaseId{1}, 101, f.now)).size() == 1);
  CHECK(f.take(f.ledger.release(LeaseId{2}, 102, f.now)).size() == 2);
}

TEST_CASE("a group is put back with its bundles, and those that are missing are placed anew") {
  Fixture f({node_of("n0", 1), node_of("n1", 1), node_of("n2", 1)});
  GroupRequest group;
  group.strategy = GroupStrategy::strict_spread;
  group.bundles.assign(2, gpus(1));
  const BundleGrant bundle{1, "n1", {{0, Share::whole(1), 100}}, {}, {}};
  CHECK(why_not(f.ledger.restore_group(GroupId{3}, group, {bundle, bundle}, f.now))
        == "bundle 1 of placement group 3 is named twice");
  CHECK(f.ledger.node("n1")->devices[0].free_share == Share::whole(1));
  REQUIRE(f.ledger.restore_group(GroupId{3}, group, {bundle}, f.now));
  f.ledger.check();
  auto inside = lease_on("n1", 5, {{0, Share::whole(1), 100}});
  inside.group = GroupId{3};
  inside.bundle = 1;
  REQUIRE(f.ledger.restore(inside));
  REQUIRE(f.ledger.restore(lease_on("n0", 4, {{0, Share::whole(1), 100}})));
  const auto events = f.advance(seconds{0});
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == Kind::granted);
  CHECK(events[0].bundles[0].node == "n2");
  CHECK(f.take(f.ledger.release_group(GroupId{3}, f.now)).size() == 2);
  CHECK(why_not(f.ledger.restore_group(GroupId{3}, group, {{5, "n1", {}, {}, {}}}, f.now))
        == "bundle 5 of placement group 3: it has bundles 0 to 1");
}

TEST_CASE(
    "only the bundles whose devices have failed, are gone or are taken lose their places in a group that is put back") {
  Fixture f({node_of("n0", 1), node_of("n1", 1), node_of("n2", 1), node_of("n3", 1)});
  REQUIRE(f.ledger.fail_device("n1", 0, f.now));
  REQUIRE(f.ledger.restore(lease_on("n2", 4, {{0, Share::whole(1), 100}})));
  GroupRequest group;
  group.bundles.assign(4, gpus(1));
  const auto on = [](int number, const char* node, int device) {
    return BundleGrant{number, node, {{device, Share::whole(1), 100}}, {}, {}};
  };
  REQUIRE(f.ledger.restore_group(GroupId{3}, group, {on(0, "n0", 0), on(1, "n1", 0), on(2, "n2", 0), on(3, "n3", 1)},
                                 f.now));
  f.ledger.check();
  REQUIRE(f.ledger.bundles_of(GroupId{3}).size() == 1);
  CHECK(f.ledger.bundles_of(GroupId{3})[0].node == "n0");
  // The others are waited for, as after a loss.
  CHECK(f.advance(seconds{0}).empty());
  CHECK(f.ledger.pending_count() == 1);
}

TEST_CASE("a group on one node is placed anew as a whole when one of its devices has failed before it is put back") {
  Fixture f({node_of("n0", 2), node_of("n1", 2)});
  REQUIRE(f.ledger.fail_device("n0", 1, f.now));
  GroupRequest group;
  group.strategy = GroupStrategy::strict_pack;
  group.bundles.assign(2, gpus(1));
  REQUIRE(f.ledger.restore_group(
      GroupId{3}, group,
      {{0, "n0", {{0, Share::whole(1), 100}}, {}, {}}, {1, "n0", {{1, Share::whole(1), 100}}, {}, {}}}, f.now));
  f.ledger.check();
  const auto events = f.advance(seconds{0});
  REQUIRE(events.size() == 1);
  REQUIRE(events[0].bundles.size() == 2);
  CHECK(events[0].bundles[0].node == "n1");
}

TEST_CASE("a group that shrinks is not put back when none of its places is left") {
  Fixture f({node_of("n0", 1)});
  REQUIRE(f.ledger.fail_device("n0", 0, f.now));
  GroupRequest group;
  group.shrinks = true;
  group.bundles.assign(2, gpus(1));
  CHECK(why_not(f.ledger.restore_group(GroupId{3}, group, {{0, "n0", {{0, Share::whole(1), 100}}, {}, {}}}, f.now))
        == "placement group 3: nothing of where its bundles were is there and free");
  CHECK(f.ledger.bundles_of(GroupId{3}).empty());
}
