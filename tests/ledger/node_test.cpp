#include <ledger/fixture.hpp>

using namespace ledger_test;

TEST_CASE("a draining node keeps its leases and gets no new ones") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  const auto held = f.submit(gpus(0.5));
  CHECK(f.take(f.ledger.drain_node("n0", f.now)).empty());
  CHECK(place(f.submit(gpus(0.5))) == "n1:0");
  f.release(held);
  CHECK(f.submit(gpus(1)).kind == Kind::pending);
  CHECK(f.ledger.node("n0")->state == NodeState::draining);
}

TEST_CASE("what only a drained node could take is infeasible from then on") {
  Fixture f({node_of("n0", 2), node_of("n1", 1)});
  f.submit(gpus(2));
  const auto waiting = f.submit(gpus(2));
  const auto events = f.take(f.ledger.drain_node("n0", f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().kind == Kind::infeasible);
  CHECK(events.front().request == waiting.request);
  CHECK(events.front().reason == "no node has 2 devices: node n1 has 1");
}

TEST_CASE("nothing is granted on a suspended node, and nothing is refused because of it") {
  Fixture f({node_of("n0", 1), node_of("n1", 2)});
  const auto kept = f.submit_group(GroupStrategy::pack, {gpus(0.5)});
  REQUIRE(kept.bundles.front().node == "n0");
  REQUIRE(f.ledger.suspend_node("n0"));
  // Fractions would go to the device in use ...
  CHECK(place(f.submit(gpus(0.5))) == "n1:0");
  // ... whole devices to the smaller node, and what asks for nothing to any.
  CHECK(place(f.submit(gpus(1))) == "n1:1");
  const auto any = f.submit({});
  CHECK(any.lease->node == "n1");
  auto in_group = gpus(0.5);
  in_group.group = kept.group;
  const auto first = f.submit(in_group);
  CHECK(place(first) == "pending: bundle 0 has room and can be reached: node n0 is away");
  auto named = gpus(0.5);
  named.node = "n0";
  const auto second = f.submit(named);
  CHECK(place(second) == "pending: no node of that name has room and can be reached: node n0 is away");
  const auto group = f.submit_group(GroupStrategy::strict_spread, {gpus(0.5), gpus(0.5)});
  CHECK(group.kind == Kind::pending);
  CHECK(f.ledger.verdicts(named).front().reason == "away: takes no leases until it is back");

  const auto events = f.take(f.ledger.unsuspend_node("n0", f.now));
  REQUIRE(events.size() == 2);
  CHECK(events[0].request == first.request);
  CHECK(place(events[0]) == "n0:0");
  CHECK(events[1].request == second.request);
  CHECK(place(events[1]) == "n0:0");
  CHECK(f.take(f.ledger.unsuspend_node("n0", f.now)).empty());
  CHECK(f.ledger.suspend_node("n9").error().code() == Errc::not_found);
}

TEST_CASE("a task on a suspended node lends nothing until it is back") {
  Fixture f({node_of("n0", 1)});
  const auto parent = f.submit(gpus(1));
  auto child = gpus(0.5);
  child.parent = parent.lease->id;
  REQUIRE(f.ledger.suspend_node("n0"));
  CHECK(f.submit(child).kind == Kind::pending);
  const auto events = f.take(f.ledger.unsuspend_node("n0", f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().lease->parent == parent.lease->id);
}

TEST_CASE("a failed device loses its leases and is never granted again") {
  Fixture f({node_of("n0", 2)});
  const auto both = f.submit(gpus(2));
  const auto waiting = f.submit(gpus(0.5));
  const auto events = f.take(f.ledger.fail_device("n0", 0, f.now));
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == Kind::lost);
  CHECK(events[0].code == Errc::lease_revoked);
  CHECK(events[0].reason == "device 0 of node n0 failed");
  CHECK(events[1].request == waiting.request);
  CHECK(place(events[1]) == "n0:1");
  CHECK(f.submit(gpus(2)).kind == Kind::infeasible);
  const auto device = f.ledger.node("n0")->devices.front();
  CHECK(device.state == DeviceState::failed);
  CHECK(device.free_share == Share{});
  CHECK(f.take(f.ledger.fail_device("n0", 0, f.now)).empty());
  CHECK(f.ledger.release(both.lease->id, both.lease->epoch, f.now).error().code() == Errc::lease_expired);
}

TEST_CASE("a removed node loses everything on it and may come back") {
  Fixture f({node_of("n0", 1)});
  f.submit(gpus(0.5));
  ResourceRequest cpus;
  cpus.cpus = Share::whole(1);
  f.submit(cpus);
  auto patient = gpus(1);
  patient.wait_for_nodes = true;
  const auto waiting = f.submit(patient);
  const auto events = f.take(f.ledger.remove_node("n0", f.now));
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == Kind::lost);
  CHECK(events[1].kind == Kind::lost);
  const auto back = f.take(f.ledger.add_node(node_of("n0", 1), f.now));
  REQUIRE(back.size() == 1);
  CHECK(back.front().request == waiting.request);
}

TEST_CASE("unknown nodes and devices are not found") {
  Fixture f({node_of("n0", 1)});
  CHECK(f.ledger.remove_node("n1", f.now).error().message() == "there is no node \"n1\"; did you mean \"n0\"?");
  CHECK(f.ledger.drain_node("x", f.now).error().code() == Errc::not_found);
  CHECK(f.ledger.fail_device("n0", 1, f.now).error().code() == Errc::not_found);
  CHECK(f.ledger.fail_device("n0", -1, f.now).error().code() == Errc::not_found);
}
