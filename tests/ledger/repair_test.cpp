// Groups that lose bundles: the rest stays, and the lost ones are placed anew, or the group shrinks.
#include <ledger/fixture.hpp>

using namespace ledger_test;

namespace {

ResourceRequest in_group_bundle(int bundle, ResourceRequest request) {
  request.group = GroupId{1};
  request.bundle = bundle;
  return request;
}

// "lost 3, pending group 1, granted group 1 at n0:0 n2:0"
std::string story(const Ledger::Events& events) {
  std::string text;
  for (const auto& event : events) {
    text += (text.empty() ? "" : ", ") + std::string{to_string(event.kind)};
    text += event.group ? " group " + std::to_string(event.group.value()) : " " + std::to_string(event.request.value());
    for (const auto& bundle : event.bundles)
      text += (&bundle == &event.bundles.front() ? " at " : " ") + bundle.node + ":"
              + std::to_string(bundle.devices.front().index);
  }
  return text;
}

} // namespace

TEST_CASE("a bundle on a lost node is placed anew, and what is in the others stays") {
  Fixture f({node_of("n0", 1), node_of("n1", 1), node_of("n2", 1)});
  CHECK(story({f.submit_group(GroupStrategy::strict_spread, {gpus(1), gpus(1)})}) == "granted group 1 at n0:0 n1:0");
  CHECK(place(f.submit(in_group_bundle(0, gpus(1)))) == "n0:0");
  CHECK(place(f.submit(in_group_bundle(1, gpus(1)))) == "n1:0");
  const auto waits = f.submit(in_group_bundle(0, gpus(1)));
  const auto events = f.take(f.ledger.remove_node("n0", f.now));
  CHECK(story(events) == "lost 1, pending group 1, granted group 1 at n2:0 n1:0, granted 3");
  CHECK(events[1].reason == "node n0 was removed: bundle 0 of the group is to be placed anew");
  CHECK(events[3].lease->node == "n2");
  CHECK(f.ledger.lease_of(RequestId{2})->node == "n1");
}

TEST_CASE("a lost bundle waits at the age of its group, and requests wait for it") {
  Fixture f({node_of("n0", 2), node_of("n1", 1)});
  f.submit_group(GroupStrategy::spread, {gpus(1), gpus(1)});
  const auto other = f.submit(gpus(1));
  const auto younger = f.submit(gpus(1));
  CHECK(younger.kind == Kind::pending);
  CHECK(story(f.take(f.ledger.fail_device("n1", 0, f.now))) == "pending group 1");
  CHECK(f.ledger.bundles_of(GroupId{1}).size() == 1);
  CHECK(f.submit(in_group_bundle(0, gpus(1))).reason == "placement group 1 waits itself");
  CHECK(f.submit(in_group_bundle(1, gpus(1))).kind == Kind::granted);
  // The group is older than the request that waited meanwhile. SPREAD may share a node where there is no other.
  CHECK(story(f.release(other)) == "released 1, granted group 1 at n0:1 n0:0, granted 3");
}

TEST_CASE("what runs in a group goes on when a lost bundle can be placed nowhere") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  f.submit_group(GroupStrategy::strict_spread, {gpus(1), gpus(1)});
  f.submit(in_group_bundle(0, gpus(1)));
  CHECK(story(f.take(f.ledger.remove_node("n1", f.now))) == "pending group 1");
  CHECK(f.ledger.find_lease(LeaseId{1}) != nullptr);
  REQUIRE(f.ledger.pending().size() == 1);
  CHECK(f.ledger.pending()[0].reason.find("it waits for new nodes: ") == 0);
  CHECK(story(f.take(f.ledger.add_node(node_of("n2", 1), f.now))) == "granted group 1 at n0:0 n2:0");
}

TEST_CASE("a group that may wait for nodes keeps its other bundles until one comes") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  GroupRequest group;
  group.strategy = GroupStrategy::strict_spread;
  group.bundles.assign(2, gpus(1));
  group.wait_for_nodes = true;
  f.submit_group(group);
  CHECK(story(f.take(f.ledger.remove_node("n0", f.now))) == "pending group 1");
  // More room where the other one is does not help.
  CHECK(story(f.take(f.ledger.add_node(node_of("n2", 1), f.now))) == "granted group 1 at n2:0 n1:0");
  CHECK(story(f.take(f.ledger.remove_node("n1", f.now))) == "pending group 1");
  CHECK(story(f.take(f.ledger.remove_node("n2", f.now))) == "pending group 1");
  CHECK(f.ledger.bundles_of(GroupId{1}).empty());
  CHECK(story(f.take(f.ledger.release_group(GroupId{1}, f.now))) == "released group 1");
}

TEST_CASE("a group that waits for a lost bundle can be removed") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  GroupRequest group;
  group.bundles.assign(2, gpus(1));
  group.wait_for_nodes = true;
  f.submit_group(group);
  f.submit(in_group_bundle(1, gpus(1)));
  f.take(f.ledger.remove_node("n0", f.now));
  CHECK(story(f.take(f.ledger.release_group(GroupId{1}, f.now))) == "released group 1, lost 1");
  CHECK(f.ledger.pending_count() == 0);
  CHECK(f.submit(gpus(1)).kind == Kind::granted);
}

TEST_CASE("under STRICT_PACK the loss of one bundle moves the whole group") {
  auto large = node_of("n0", 3);
  Fixture f({large, node_of("n1", 3)});
  f.submit_group(GroupStrategy::strict_pack, {gpus(1), gpus(1)});
  f.submit(in_group_bundle(0, gpus(1)));
  f.submit(in_group_bundle(1, gpus(1)));
  const auto events = f.take(f.ledger.fail_device("n0", 1, f.now));
  CHECK(story(events) == "lost 2, lost 1, pending group 1, granted group 1 at n0:0 n0:2");
  CHECK(events[2].reason == "device 1 of node n0 failed: bundles 0, 1 of the group are to be placed anew");
}

TEST_CASE("what leases in lost bundles hold on other devices is kept until their holders have ended") {
  Fixture f({node_of("n0", 4)});
  f.submit_group(GroupStrategy::strict_pack, {gpus(1), gpus(1)});
  const auto first = f.submit(in_group_bundle(0, gpus(1)));
  const auto second = f.submit(in_group_bundle(1, gpus(1)));
  const auto lost = f.take(f.ledger.fail_device("n0", 1, f.now, Holders::stay));
  CHECK(story(lost) == "lost 2, lost 1, pending group 1, granted group 1 at n0:2 n0:3");
  CHECK(f.submit(gpus(1)).kind == Kind::pending);
  CHECK(story(f.release(second)) == "released 2");
  CHECK(story(f.release(first)) == "released 1, granted 3");
}

TEST_CASE("a lost bundle of a PACK group goes where the others are if there is room") {
  Fixture f({node_of("n0", 1), node_of("n1", 3), node_of("n2", 1)});
  auto on = gpus(2);
  on.node = "n1";
  const auto first = f.submit(on);
  on.node = "n2";
  on.gpus = Share::whole(1);
  const auto second = f.submit(on);
  on.node = "n1";
  CHECK(story({f.submit_group(GroupStrategy::pack, {on, gpus(1)})}) == "granted group 1 at n1:2 n0:0");
  f.release(first);
  f.release(second);
  // A request of its own would go to n2, which has fewer idle devices.
  CHECK(story(f.take(f.ledger.remove_node("n0", f.now))) == "pending group 1, granted group 1 at n1:2 n1:0");
}

TEST_CASE("the queue timeout of a group is for its first placing, not for a bundle that it loses") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  const auto holder = f.submit(gpus(1));
  GroupRequest group;
  group.bundles.assign(2, gpus(1));
  group.queue_timeout = seconds{5};
  f.submit_group(group);
  CHECK(story(f.release(holder)) == "released 1, granted group 1 at n0:0 n1:0");
  f.submit(in_group_bundle(1, gpus(1)));
  f.take(f.ledger.remove_node("n0", f.now));
  CHECK(f.advance(seconds{1000}).empty());
  CHECK(f.ledger.find_lease(LeaseId{2}) != nullptr);
}

// -- groups that shrink --------------------------------------------------------------------------

namespace {

GroupRequest shrinking(std::size_t bundles) {
  GroupRequest group;
  group.strategy = GroupStrategy::spread;
  group.bundles.assign(bundles, gpus(1));
  group.shrinks = true;
  return group;
}

} // namespace

TEST_CASE("a group that shrinks goes on without the bundles of a lost node or device") {
  Fixture f({node_of("n0", 1), node_of("n1", 1), node_of("n2", 2)});
  f.submit_group(shrinking(3));
  for (int bundle = 0; bundle < 3; ++bundle)
    f.submit(in_group_bundle(bundle, gpus(1)));
  const auto waits = f.submit(in_group_bundle(0, gpus(1)));
  const auto anywhere = f.submit(in_group_bundle(-1, gpus(1)));
  // There is a free device on n2: it stays free.
  const auto events = f.take(f.ledger.remove_node("n0", f.now));
  CHECK(story(events) == "lost 1, granted group 1 at n1:0 n2:0, rejected 4");
  CHECK(events[1].reason == "node n0 was removed: the group goes on with what is left");
  CHECK(f.submit(in_group_bundle(0, gpus(1))).code == Errc::not_found);
  CHECK(story(f.take(f.ledger.fail_device("n1", 0, f.now))) == "lost 2, granted group 1 at n2:0");
  CHECK(f.ledger.lease_of(RequestId{3})->node == "n2");
  // With the last bundle the group goes, and with it what waits for it.
  const auto end = f.take(f.ledger.remove_node("n2", f.now));
  CHECK(story(end) == "lost 3, lost group 1, rejected 5");
  CHECK(end[1].reason == "node n2 was removed: no bundle of the group is left");
  CHECK(f.ledger.release_group(GroupId{1}, f.now).error().code() == Errc::not_found);
}

TEST_CASE("a group that shrinks gives a bundle back when what ran in it has ended") {
  Fixture f({node_of("n0", 2)});
  f.submit_group(shrinking(2));
  const auto first = f.submit(in_group_bundle(0, gpus(0.5)));
  const auto beside = f.submit(in_group_bundle(0, gpus(0.5)));
  const auto second = f.submit(in_group_bundle(1, gpus(1)));
  const auto outside = f.submit(gpus(1));
  CHECK(story(f.release(first)) == "released 1");
  CHECK(story(f.release(beside)) == "released 2, granted group 1 at n0:1, granted 4");
  CHECK(story(f.release(second)) == "released 3, released group 1");
  CHECK(f.ledger.bundles_of(GroupId{1}).empty());
  CHECK(f.submit(gpus(1)).kind == Kind::granted);
}

TEST_CASE("a group that shrinks, and has nothing left, is removed while others wait to be served") {
  Fixture f({node_of("n0", 2)});
  GroupRequest request;
  request.bundles = {gpus(1), gpus(1)};
  request.shrinks = true;
  const auto group = f.submit_group(request).group;
  f.ledger.pause();
  f.take(f.ledger.remove_node("n0", f.now));
  const auto events = f.take(f.ledger.release_group(group, f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().kind == Kind::released);
  CHECK(f.ledger.resume(f.now).empty());
  CHECK(f.ledger.release_group(group, f.now).error().code() == Errc::not_found);
}

TEST_CASE("under STRICT_PACK a group that shrinks keeps the bundles that were not lost") {
  Fixture f({node_of("n0", 2)});
  auto group = shrinking(2);
  group.strategy = GroupStrategy::strict_pack;
  f.submit_group(group);
  f.submit(in_group_bundle(1, gpus(1)));
  CHECK(story(f.take(f.ledger.fail_device("n0", 0, f.now))) == "granted group 1 at n0:1");
}

TEST_CASE("a group that shrinks is put back with the bundles that it had left") {
  Fixture f({node_of("n0", 2)});
  const BundleGrant left{1, "n0", {{1, Share::whole(1), 100}}, {}, {}};
  REQUIRE(f.ledger.restore_group(GroupId{1}, shrinking(2), {left}, f.now));
  f.ledger.check();
  CHECK(f.ledger.pending_count() == 0);
  CHECK(f.submit(in_group_bundle(0, gpus(1))).code == Errc::not_found);
  CHECK(place(f.submit(in_group_bundle(1, gpus(1)))) == "n0:1");
}
