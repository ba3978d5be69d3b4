#include <ledger/fixture.hpp>

using namespace ledger_test;

namespace {

ResourceRequest child_of(const Event& parent, ResourceRequest request) {
  request.parent = parent.lease->id;
  return request;
}

} // namespace

TEST_CASE("a child that finds no room gets what its parent holds") {
  Fixture f({node_of("n0", 1)});
  const auto parent = f.submit(gpus(1));
  const auto child = f.submit(child_of(parent, gpus(0.5)));
  CHECK(place(child) == "n0:0");
  CHECK(child.lease->parent == parent.lease->id);
  // The device itself is as full as before.
  CHECK(f.ledger.node("n0")->devices.front().free_share == Share{});
  CHECK(f.ledger.node("n0")->devices.front().leases.size() == 2);
}

TEST_CASE("a child takes free room before it borrows") {
  Fixture f({node_of("n0", 2)});
  const auto parent = f.submit(gpus(1));
  const auto child = f.submit(child_of(parent, gpus(1)));
  CHECK(place(child) == "n0:1");
  CHECK_FALSE(child.lease->parent);
}

TEST_CASE("a parent lends nothing twice, and its children wait for each other") {
  Fixture f({node_of("n0", 1)});
  const auto parent = f.submit(gpus(1));
  const auto first = f.submit(child_of(parent, gpus(0.6)));
  const auto second = f.submit(child_of(parent, gpus(0.6)));
  CHECK(second.kind == Kind::pending);
  CHECK(f.release(first).back().request == second.request);
}

TEST_CASE("what a parent held is free when the parent and all it lent to are gone") {
  Fixture f({node_of("n0", 1)});
  const auto parent = f.submit(gpus(1));
  const auto child = f.submit(child_of(parent, gpus(0.25)));
  CHECK(f.release(parent).size() == 1);
  CHECK(f.submit(gpus(0.1)).kind == Kind::pending);
  CHECK(f.ledger.leases().size() == 1);
  CHECK(f.ledger.release(parent.lease->id, parent.lease->epoch, f.now).error().code() == Errc::lease_expired);
  CHECK(f.release(child).back().kind == Kind::granted);
}

TEST_CASE("a child that could only wait for its own parent is infeasible at once") {
  Fixture f({node_of("n0", 1)});
  const auto parent = f.submit(gpus(0.5));
  const auto child = f.submit(child_of(parent, gpus(1)));
  CHECK(child.kind == Kind::infeasible);
  CHECK(child.reason
        == "it would wait for its own parent: it does not fit in lease 1, and as long as that is held no node has 1 "
           "device: "
           "node n0 has 0");
  // Anyone else may wait for it.
  CHECK(f.submit(gpus(1)).kind == Kind::pending);
}

TEST_CASE("a grandchild borrows from whoever waits for it") {
  Fixture f({node_of("n0", 1)});
  const auto top = f.submit(gpus(1));
  const auto middle = f.submit(child_of(top, ResourceRequest{}));
  const auto bottom = f.submit(child_of(middle, gpus(1)));
  CHECK(bottom.kind == Kind::granted);
  CHECK(bottom.lease->parent == top.lease->id);
  const auto more = f.submit(child_of(bottom, gpus(0.5)));
  CHECK(more.lease->parent == bottom.lease->id);
}

TEST_CASE("a child's request becomes an ordinary one when its parent ends") {
  Fixture f({node_of("n0", 1)});
  const auto parent = f.submit(gpus(1));
  const auto first = f.submit(child_of(parent, gpus(0.6)));
  const auto second = f.submit(child_of(parent, gpus(0.6)));
  f.release(parent);
  CHECK(f.ledger.is_pending(second.request));
  const auto granted = f.release(first).back();
  CHECK(granted.request == second.request);
  CHECK_FALSE(granted.lease->parent);
}

TEST_CASE("a parent that has ended is no parent") {
  Fixture f({node_of("n0", 1)});
  const auto parent = f.submit(gpus(0.5));
  f.release(parent);
  const auto child = f.submit(child_of(parent, gpus(1)));
  CHECK(child.kind == Kind::granted);
}

TEST_CASE("cpus and custom resources are lent like devices") {
  auto node = node_of("n0", 0);
  node.cpus = Share::whole(2);
  node.resources["x"] = Share::whole(1);
  Fixture f({node});
  ResourceRequest request;
  request.cpus = Share::whole(2);
  request.resources["x"] = Share::whole(1);
  const auto parent = f.submit(request);
  request.cpus = Share::whole(1);
  const auto child = f.submit(child_of(parent, request));
  CHECK(child.lease->parent == parent.lease->id);
  CHECK(f.submit(child_of(parent, request)).kind == Kind::pending);
}

TEST_CASE("a failed device takes lender and borrowers with it") {
  Fixture f({node_of("n0", 2)});
  const auto parent = f.submit(gpus(2));
  const auto on_first = f.submit(child_of(parent, gpus(0.5)));
  auto other = gpus(1);
  const auto on_second = f.submit(child_of(parent, other));
  CHECK(place(on_second) == "n0:1");
  const auto events = f.take(f.ledger.fail_device("n0", 0, f.now));
  REQUIRE(events.size() == 2);
  CHECK(events[0].request == parent.request);
  CHECK(events[1].request == on_first.request);
  // The borrower on the healthy device goes on, and its share comes back when it ends.
  CHECK(f.submit(gpus(1)).kind == Kind::pending);
  CHECK(f.release(on_second).back().kind == Kind::granted);
}

TEST_CASE("a child that only a new node could serve is looked at again when what its ancestors hold is less") {
  Fixture f({node_of("n0", 2), node_of("n1", 1)});
  // The top one's lease is on n0; those between hold nothing there, or something elsewhere.
  auto wanted = gpus(1);
  wanted.node = "n0";
  const auto top = f.submit(wanted);
  wanted.node = "n1";
  const auto middle = f.submit(child_of(top, wanted));
  const auto bottom = f.submit(child_of(middle, ResourceRequest{}));
  const auto other = f.submit(gpus(1));
  auto child = child_of(bottom, gpus(2));
  CHECK(f.submit(child).kind == Kind::infeasible);
  child.wait_for_nodes = true;
  const auto waiting = f.submit(child);
  REQUIRE(waiting.kind == Kind::pending);
  // A lease that is none of theirs changes nothing.
  CHECK(f.release(other).size() == 1);
  const auto events = f.release(top);
  REQUIRE(events.size() == 2);
  CHECK(events[1].request == waiting.request);
  CHECK(place(events[1]) == "n0:0,1");
}

TEST_CASE("a child is answered when its ancestor's group gets what it counted on") {
  Fixture f({node_of("n0", 1), node_of("n1", 1), node_of("n2", 1)});
  auto wanted = gpus(1);
  wanted.node = "n0";
  f.submit(wanted);
  wanted.node = "n2";
  const auto other = f.submit(wanted);
  GroupRequest group;
  ResourceRequest cpu;
  cpu.cpus = Share::whole(1);
  cpu.node = "n0";
  group.bundles = {cpu, gpus(1)};
  const auto id = f.submit_group(group).group;
  cpu.node = {};
  cpu.group = id;
  cpu.bundle = 0;
  const auto child = f.submit(child_of(f.submit(cpu), wanted));
  REQUIRE(child.kind == Kind::pending);
  f.take(f.ledger.remove_node("n1", f.now));
  const auto events = f.release(other);
  REQUIRE(events.size() == 3);
  CHECK(events[1].group == id);
  CHECK(events[2].kind == Kind::infeasible);
  CHECK(events[2].request == child.request);
}

TEST_CASE("a child is looked at again when a bundle of its ancestor's group has gone") {
  Fixture f({node_of("n0", 2), node_of("n1", 1)});
  GroupRequest group;
  group.strategy = GroupStrategy::spread;
  group.bundles.assign(2, gpus(1));
  group.bundles[0].node = "n1";
  group.bundles[1].node = "n0";
  group.shrinks = true;
  const auto id = f.submit_group(group).group;
  const auto in_bundle = [&](int number) {
    auto request = gpus(1);
    request.group = id;
    request.bundle = number;
    return f.submit(request);
  };
  const auto stays = in_bundle(0);
  const auto goes = in_bundle(1);
  auto child = child_of(stays, gpus(2));
  CHECK(f.submit(child).kind == Kind::infeasible);
  child.wait_for_nodes = true;
  const auto waiting = f.submit(child);
  const auto events = f.release(goes);
  REQUIRE(events.size() == 3);
  CHECK(events[2].request == waiting.request);
  CHECK(place(events[2]) == "n0:0,1");
}
