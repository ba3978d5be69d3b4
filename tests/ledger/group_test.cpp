#include <ledger/fixture.hpp>

#include <set>

using namespace ledger_test;

namespace {

std::set<std::string> nodes_of(const Event& event) {
  std::set<std::string> nodes;
  for (const auto& bundle : event.bundles)
    nodes.insert(bundle.node);
  return nodes;
}

ResourceRequest in_bundle(int bundle, ResourceRequest request, std::uint64_t group = 1) {
  request.group = GroupId{group};
  request.bundle = bundle;
  return request;
}

} // namespace

TEST_CASE("STRICT_PACK puts all bundles on one node or none anywhere") {
  Fixture f({node_of("n0", 2), node_of("n1", 3)});
  const auto event = f.submit_group(GroupStrategy::strict_pack, {gpus(1), gpus(1), gpus(0.5)});
  CHECK(nodes_of(event) == std::set<std::string>{"n1"});
  CHECK(
      f.submit_group(GroupStrategy::strict_pack, {gpus(2), gpus(2)}).reason
      == "no node takes all 2 bundles together; they ask for 4 devices in all, the most on one node is 3, on node n1");
  CHECK(f.events.front().kind == Kind::infeasible);
  CHECK(f.submit_group(GroupStrategy::strict_pack, {gpus(1), gpus(1), gpus(1)}).kind == Kind::pending);
}

TEST_CASE("a group that fits together only in one way is found before the search gives up") {
  Fixture f({node_of("n0", 3, 10'000)});
  std::vector<ResourceRequest> bundles;
  for (const auto share : {0.67, 0.44, 0.36, 0.27, 0.23, 0.19, 0.18, 0.17, 0.13, 0.10, 0.09, 0.09, 0.08})
    bundles.push_back(gpus(share));
  CHECK(f.submit_group(GroupStrategy::strict_pack, bundles).kind == Kind::granted);
}

TEST_CASE("STRICT_SPREAD needs a node for each bundle") {
  Fixture f({node_of("n0", 1, 100, "A"), node_of("n1", 1, 100, "B"), node_of("n2", 0)});
  auto a = gpus(0.5);
  a.accelerator_type = "A";
  // The first bundle would fit on n0, too, where only the second fits.
  CHECK(nodes_of(f.submit_group(GroupStrategy::strict_spread, {gpus(0.5), a})) == std::set<std::string>{"n0", "n1"});
  CHECK(f.submit_group(GroupStrategy::strict_spread, {gpus(0.1), gpus(0.1), gpus(0.1)}).kind == Kind::infeasible);
}

TEST_CASE("PACK uses few nodes and SPREAD many, as far as they can") {
  Fixture f({node_of("n0", 2), node_of("n1", 4), node_of("n2", 2)});
  const auto packed = f.submit_group(GroupStrategy::pack, {gpus(1), gpus(1), gpus(1)});
  CHECK(nodes_of(packed) == std::set<std::string>{"n1"});
  f.take(f.ledger.release_group(packed.group, f.now));
  const auto parted = f.submit_group(GroupStrategy::pack, std::vector<ResourceRequest>(6, gpus(1)));
  CHECK(nodes_of(parted).size() == 2);
  f.take(f.ledger.release_group(parted.group, f.now));
  const auto spread = f.submit_group(GroupStrategy::spread, {gpus(0.5), gpus(0.5), gpus(0.5)});
  CHECK(nodes_of(spread).size() == 3);
  const auto shared = f.submit_group(GroupStrategy::spread, std::vector<ResourceRequest>(5, gpus(1)));
  CHECK(shared.kind == Kind::granted);
}

TEST_CASE("bundles that ask for the same are placed whatever way the first of them goes") {
  const auto on = [](const std::string& node, ResourceRequest request) {
    request.node = node;
    return request;
  };
  Fixture f({node_of("n0", 2), node_of("n1", 2), node_of("n2", 1)});
  f.submit(on("n0", gpus(0.5)));
  f.submit(on("n1", gpus(1)));
  // A whole device of the last node would be the first choice for one of them, and has to be left to the last bundle.
  for (const auto strategy : {GroupStrategy::pack, GroupStrategy::spread}) {
    const auto event = f.submit_group(strategy, {gpus(1), gpus(1), gpus(0.5), gpus(0.5), on("n2", gpus(0.5))});
    REQUIRE(event.kind == Kind::granted);
    f.take(f.ledger.release_group(event.group, f.now));
  }
}

TEST_CASE("a group that needs a drained node waits until the node takes leases again") {
  Fixture f({node_of("n0", 2), node_of("n1", 1)});
  const auto held = f.submit(gpus(2));
  const auto together = f.submit_group(GroupStrategy::strict_pack, {gpus(1), gpus(1)});
  CHECK(together.kind == Kind::pending);
  CHECK(f.take(f.ledger.drain_node("n0", f.now)).empty());
  auto there = gpus(0.5);
  there.node = "n0";
  const auto apart = f.submit_group(GroupStrategy::strict_spread, {gpus(0.5), there});
  CHECK(apart.kind == Kind::pending);
  const auto* const reason = "the bundles have no place without the nodes that are being drained: n0";
  CHECK(apart.reason == reason);
  CHECK(f.ledger.pending().front().reason == reason);
  CHECK(f.release(held).size() == 1);
  const auto events = f.take(f.ledger.undrain_node("n0", f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().group == together.group);
  CHECK(nodes_of(events.front()) == std::set<std::string>{"n0"});
  const auto next = f.take(f.ledger.release_group(together.group, f.now));
  REQUIRE(next.size() == 2);
  CHECK(next.back().group == apart.group);
  CHECK(nodes_of(next.back()) == std::set<std::string>{"n0", "n1"});
}

TEST_CASE("a group that waits for a drained node is infeasible when the node is removed") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  f.take(f.ledger.drain_node("n1", f.now));
  GroupRequest request;
  request.bundles = {gpus(0.5), gpus(0.5)};
  request.strategy = GroupStrategy::strict_spread;
  const auto waiting = f.submit_group(request);
  CHECK(waiting.reason == "the bundles have no place without the nodes that are being drained: n1");
  CHECK(f.submit(in_bundle(0, gpus(0.5))).reason == "placement group 1 waits itself");
  request.queue = false;
  const auto refused = f.submit_group(request);
  CHECK(refused.kind == Kind::rejected);
  CHECK(refused.code == Errc::no_capacity);
  // More than both nodes together have: the drained one would not help.
  const auto large = f.submit_group(GroupStrategy::spread, std::vector<ResourceRequest>(3, gpus(1)));
  CHECK(large.kind == Kind::infeasible);
  CHECK(large.reason
        == "the 3 bundles fit one by one but not together; they ask for 3 devices in all, the most on one node is 1, "
           "on node n0");
  const auto events = f.take(f.ledger.remove_node("n1", f.now));
  REQUIRE(events.size() == 2);
  CHECK(events[0].group == waiting.group);
  CHECK(events[0].kind == Kind::infeasible);
  CHECK(events[0].reason == "the 2 bundles need a node each: the number of nodes is 1");
  CHECK(events[1].kind == Kind::rejected);
}

TEST_CASE("a group is granted as a whole when the last bundle fits") {
  Fixture f({node_of("n0", 2)});
  const auto holder = f.submit(gpus(1));
  CHECK(f.submit_group(GroupStrategy::pack, {gpus(1), gpus(1)}).kind == Kind::pending);
  CHECK(f.submit(gpus(1)).kind == Kind::granted);
  CHECK(f.ledger.bundles_of(GroupId{1}).empty());
  f.release(holder);
  CHECK(f.ledger.bundles_of(GroupId{1}).empty());
}

TEST_CASE("requests draw from their bundle, get its device ids, and nothing else") {
  Fixture f({node_of("n0", 3)});
  f.submit(gpus(1));
  f.submit_group(GroupStrategy::pack, {gpus(1), gpus(0.5)});
  CHECK(place(f.submit(in_bundle(0, gpus(0.7)))) == "n0:1");
  CHECK(f.events.front().lease->group == GroupId{1});
  const auto waiting = f.submit(in_bundle(0, gpus(0.5)));
  CHECK(waiting.reason == "bundle 0 does not have 0.5 of a device free: the most on one device is 0.3, on node n0");
  CHECK(place(f.submit(in_bundle(1, gpus(0.5)))) == "n0:2");
  CHECK(f.submit(in_bundle(1, gpus(1))).kind == Kind::infeasible);
  CHECK(place(f.submit(in_bundle(-1, gpus(0.3)))) == "n0:1");
  CHECK(f.submit(in_bundle(2, gpus(0.1))).code == Errc::invalid_argument);
  CHECK(f.submit(in_bundle(0, gpus(0.1), 7)).code == Errc::not_found);
  // What is left of the third device is not the group's.
  CHECK(place(f.submit(gpus(0.5))) == "n0:2");
}

TEST_CASE("requests may wait for a group that waits, and are answered when it is placed") {
  Fixture f({node_of("n0", 1)});
  const auto holder = f.submit(gpus(1));
  f.submit_group(GroupStrategy::pack, {gpus(0.5)});
  const auto fits = f.submit(in_bundle(0, gpus(0.5)));
  const auto too_large = f.submit(in_bundle(0, gpus(0.6)));
  CHECK(fits.reason == "placement group 1 waits itself");
  const auto events = f.release(holder);
  REQUIRE(events.size() == 4);
  CHECK(events[1].group == GroupId{1});
  CHECK(events[2].request == too_large.request);
  CHECK(events[2].kind == Kind::infeasible);
  CHECK(events[3].request == fits.request);
  CHECK(events[3].kind == Kind::granted);
}

TEST_CASE("removing a group loses what is in it and frees everything") {
  Fixture f({node_of("n0", 1)});
  f.submit_group(GroupStrategy::pack, {gpus(1)});
  const auto inside = f.submit(in_bundle(0, gpus(1)));
  const auto waits_inside = f.submit(in_bundle(0, gpus(1)));
  const auto outside = f.submit(gpus(1));
  const auto events = f.take(f.ledger.release_group(GroupId{1}, f.now));
  REQUIRE(events.size() == 4);
  CHECK(events[0].kind == Kind::released);
  CHECK(events[1].kind == Kind::lost);
  CHECK(events[1].request == inside.request);
  CHECK(events[2].kind == Kind::rejected);
  CHECK(events[2].request == waits_inside.request);
  CHECK(events[3].request == outside.request);
  CHECK(f.ledger.release_group(GroupId{1}, f.now).error().code() == Errc::not_found);
}

TEST_CASE("a group needs bundles, and its bundles keep the rules") {
  Fixture f({node_of("n0", 1)});
  CHECK(f.submit_group(GroupStrategy::pack, {}).code == Errc::invalid_argument);
  CHECK(f.submit_group(GroupStrategy::pack, {gpus(0.5), gpus(1.5)}).reason.find("bundle 1: gpus is 1.5") == 0);
}

TEST_CASE("who waits for a group that waits itself is told how the group ended") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  f.submit(gpus(1));
  const auto wait_for_group = [&] {
    const auto group = f.submit_group(GroupStrategy::strict_spread, {gpus(1), gpus(1)}).group;
    CHECK(f.submit(in_bundle(0, gpus(1), group.value())).kind == Kind::pending);
    return group;
  };
  const auto removed = f.take(f.ledger.release_group(wait_for_group(), f.now));
  REQUIRE(removed.size() == 2);
  CHECK(removed[0].reason == "withdrawn while it waited");
  CHECK(removed[1].reason == "its placement group was removed");
  wait_for_group();
  const auto lost = f.take(f.ledger.remove_node("n1", f.now));
  REQUIRE(lost.size() == 2);
  CHECK(lost[0].kind == Kind::infeasible);
  CHECK(lost[1].reason == "its placement group could not be placed: " + lost[0].reason);
}

TEST_CASE("a bundle goes to the node that it prefers where the strategy leaves the choice") {
  Fixture f({node_of("n0", 2), node_of("n1", 4)});
  auto preferring = gpus(1);
  preferring.node = "n1";
  preferring.node_is_soft = true;
  CHECK(nodes_of(f.submit_group(GroupStrategy::pack, {preferring})) == std::set<std::string>{"n1"});
  CHECK(nodes_of(f.submit_group(GroupStrategy::strict_pack, {preferring, gpus(1)})) == std::set<std::string>{"n1"});
  // There is no room for a second one there, and it does not wait.
  const auto two = f.submit_group(GroupStrategy::pack, {preferring, preferring});
  CHECK(two.kind == Kind::granted);
  CHECK(nodes_of(two) == std::set<std::string>{"n0"});
}
