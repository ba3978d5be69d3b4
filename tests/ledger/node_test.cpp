#include <ledger/fixture.hpp>

#include <utility>

using namespace ledger_test;

namespace {

/// One that holds two devices, and one that has half a device of it.
std::pair<Event, Event> submit_lender_and_child(Fixture& fixture) {
  auto lender = fixture.submit(gpus(2));
  auto child = gpus(0.5);
  child.parent = lender.lease->id;
  return {std::move(lender), fixture.submit(child)};
}

} // namespace

TEST_CASE("a draining node keeps its leases and gets no new ones") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  const auto held = f.submit(gpus(0.5));
  CHECK(f.take(f.ledger.drain_node("n0", f.now)).empty());
  CHECK(place(f.submit(gpus(0.5))) == "n1:0");
  f.release(held);
  CHECK(f.submit(gpus(1)).kind == Kind::pending);
  CHECK(f.ledger.node("n0")->state == NodeState::draining);
}

TEST_CASE("what only a drained node could take waits until the node takes leases again") {
  Fixture f({node_of("n0", 2), node_of("n1", 1)});
  const auto held = f.submit(gpus(2));
  const auto before = f.submit(gpus(2));
  CHECK(before.reason == "no node has 2 devices free: node n1 has 1");
  CHECK(f.take(f.ledger.drain_node("n0", f.now)).empty());
  const auto* const reason = "every node that could serve it is being drained: n0";
  CHECK(f.ledger.pending().front().reason == reason);
  CHECK_FALSE(f.ledger.could_be_served(before.request));
  // One that comes now waits as well, and what is given back does not serve it.
  CHECK(place(f.submit(gpus(1))) == "n1:0");
  const auto last = f.submit(gpus(2));
  CHECK(last.kind == Kind::pending);
  CHECK(last.reason == reason);
  CHECK(f.release(held).size() == 1);
  const auto events = f.take(f.ledger.undrain_node("n0", f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().request == before.request);
  CHECK(place(events.front()) == "n0:0,1");
  CHECK(f.ledger.pending().front().reason == "no node has 2 devices free: node n0 has 0");
}

TEST_CASE("what waits for a drained node is infeasible when the last such node is removed") {
  Fixture f({node_of("n0", 2), node_of("n1", 1), node_of("n2", 2)});
  for (const auto* node : {"n0", "n2"})
    f.take(f.ledger.drain_node(node, f.now));
  const auto waiting = f.submit(gpus(2));
  CHECK(waiting.reason == "every node that could serve it is being drained: n0, n2");
  auto patient = gpus(2);
  patient.wait_for_nodes = true;
  CHECK(f.submit(patient).reason == waiting.reason);
  CHECK(f.take(f.ledger.remove_node("n0", f.now)).empty());
  CHECK(f.ledger.pending().front().reason == "every node that could serve it is being drained: n2");
  const auto events = f.take(f.ledger.remove_node("n2", f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().kind == Kind::infeasible);
  CHECK(events.front().request == waiting.request);
  CHECK(events.front().reason == "no node has 2 devices: node n1 has 1");
  REQUIRE(f.ledger.pending().size() == 1);
  CHECK(f.ledger.pending().front().reason == "it waits for new nodes: no node has 2 devices: node n1 has 1");
}

TEST_CASE("what a drained node could not take either is infeasible, also once a device there fails") {
  Fixture f({node_of("n0", 2), node_of("n1", 1)});
  f.take(f.ledger.drain_node("n0", f.now));
  CHECK(place(f.submit(gpus(3))) == "infeasible: no node has 3 devices: node n0 has 2");
  const auto waiting = f.submit(gpus(2));
  CHECK(waiting.kind == Kind::pending);
  const auto events = f.take(f.ledger.fail_device("n0", 1, f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().request == waiting.request);
  CHECK(place(events.front()) == "infeasible: no node has 2 devices: node n0 has 1");
}

TEST_CASE("a request that names a drained node waits for it") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  f.take(f.ledger.drain_node("n0", f.now));
  auto named = gpus(1);
  named.node = "n0";
  const auto waiting = f.submit(named);
  CHECK(waiting.kind == Kind::pending);
  CHECK(waiting.reason == "every node that could serve it is being drained: n0");
  // A preference is no reason to wait.
  auto preferred = named;
  preferred.node_is_soft = true;
  CHECK(place(f.submit(preferred)) == "n1:0");
  const auto events = f.take(f.ledger.undrain_node("n0", f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().request == waiting.request);
  CHECK(place(events.front()) == "n0:0");

  f.take(f.ledger.drain_node("n1", f.now));
  named.node = "n1";
  CHECK(f.submit(named).kind == Kind::pending);
  const auto refused = f.take(f.ledger.remove_node("n1", f.now));
  REQUIRE(refused.size() == 2);
  CHECK(refused[0].kind == Kind::lost);
  CHECK(place(refused[1]) == "infeasible: no node is named \"n1\"; did you mean \"n0\"?");
}

TEST_CASE("what must not queue, or not for long, is refused while the node for it is drained") {
  Fixture f({node_of("n0", 1)});
  f.take(f.ledger.drain_node("n0", f.now));
  auto now_or_never = gpus(1);
  now_or_never.queue = false;
  const auto refused = f.submit(now_or_never);
  CHECK(place(refused) == "rejected: every node that could serve it is being drained: n0");
  CHECK(refused.code == Errc::no_capacity);
  auto hasty = gpus(1);
  hasty.queue_timeout = seconds{2};
  CHECK(f.submit(hasty).kind == Kind::pending);
  const auto events = f.advance(seconds{2});
  REQUIRE(events.size() == 1);
  CHECK(events.front().code == Errc::no_capacity);
  CHECK(events.front().reason == "waited 2 s in vain: every node that could serve it is being drained: n0");
}

TEST_CASE("of many drained nodes only the first are named") {
  Fixture f;
  for (int i = 10; i < 20; ++i) {
    const auto name = "n" + std::to_string(i);
    f.take(f.ledger.add_node(node_of(name, 1), f.now));
    f.take(f.ledger.drain_node(name, f.now));
  }
  CHECK(f.submit(gpus(1)).reason
        == "every node that could serve it is being drained: n10, n11, n12, n13, n14, n15, n16, n17 and 2 more");
}

TEST_CASE("a child that only a drained node has room for beside its parent waits, and is served") {
  Fixture f({node_of("n0", 2)});
  const auto parent = f.submit(gpus(1));
  f.take(f.ledger.drain_node("n0", f.now));
  auto child = gpus(1);
  child.parent = parent.lease->id;
  child.memory_bytes = 100;
  const auto lent = f.submit(child);
  CHECK(lent.lease->parent == parent.lease->id);
  // The parent's lease is too small for this one whatever comes back.
  f.release(lent);
  f.release(parent);
  f.take(f.ledger.undrain_node("n0", f.now));
  const auto half = f.submit(gpus(0.5));
  f.take(f.ledger.drain_node("n0", f.now));
  child.parent = half.lease->id;
  const auto waiting = f.submit(child);
  CHECK(place(waiting) == "pending: every node that could serve it is being drained: n0");
  child.gpus = Share::whole(2);
  CHECK(place(f.submit(child)).find("infeasible: it would wait for its own parent: ") == 0);
  const auto events = f.take(f.ledger.undrain_node("n0", f.now));
  REQUIRE(events.size() == 1);
  CHECK(events.front().request == waiting.request);
  CHECK(place(events.front()) == "n0:1");
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
  CHECK(place(first) == "pending: bundle 0 cannot be reached: node n0 is away");
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

TEST_CASE("what a lost lease has besides the failed device is granted again when its holder has ended") {
  Fixture f({node_of("n0", 2)});
  const auto both = f.submit(gpus(2));
  const auto waiting = f.submit(gpus(0.5));
  const auto lost = f.take(f.ledger.fail_device("n0", 0, f.now, Holders::stay));
  REQUIRE(lost.size() == 1);
  CHECK(lost.front().kind == Kind::lost);
  CHECK(f.ledger.leases().empty());
  CHECK(f.ledger.find_lease(both.lease->id) == nullptr);
  REQUIRE(f.ledger.remains().size() == 1);
  const auto rest = f.ledger.remains().front();
  CHECK(rest.id == both.lease->id);
  REQUIRE(rest.devices.size() == 1);
  CHECK(rest.devices.front().index == 1);
  CHECK(f.ledger.node("n0")->devices.back().free_share == Share{});
  CHECK(f.ledger.release(rest.id, rest.epoch + 1, f.now).error().code() == Errc::stale_epoch);
  const auto events = f.release(both);
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == Kind::released);
  CHECK(events[1].request == waiting.request);
  CHECK(place(events[1]) == "n0:1");
  CHECK(f.ledger.find_remains(rest.id) == nullptr);
  CHECK(f.ledger.release(rest.id, rest.epoch, f.now).error().code() == Errc::lease_expired);
}

TEST_CASE("what is kept of lost leases goes with its node") {
  Fixture f({node_of("n0", 2)});
  f.submit(gpus(2));
  f.take(f.ledger.fail_device("n0", 0, f.now, Holders::stay));
  CHECK(f.take(f.ledger.remove_node("n0", f.now)).empty());
  CHECK(f.ledger.remains().empty());
  f.take(f.ledger.add_node(node_of("n0", 2), f.now));
  CHECK(place(f.submit(gpus(2))) == "n0:0,1");
}

TEST_CASE("what is held on a node are its leases, and what is kept of lost ones") {
  Fixture f({node_of("n0", 2), node_of("n1", 1)});
  auto there = gpus(2);
  there.node = "n0";
  const auto lost = f.submit(there);
  f.take(f.ledger.fail_device("n0", 0, f.now, Holders::stay));
  ResourceRequest cpus;
  cpus.cpus = Share::whole(1);
  cpus.node = "n0";
  const auto held = f.submit(cpus);
  f.submit(gpus(1));
  const auto held_on = [&](std::string_view node) {
    std::vector<LeaseId> ids;
    f.ledger.for_each_held(node, [&](const Lease& lease) { ids.push_back(lease.id); });
    return ids;
  };
  CHECK(held_on("n0") == std::vector{held.lease->id, lost.lease->id});
  CHECK(held_on("n1").size() == 1);
  CHECK(held_on("n2").empty());
  f.release(held);
  f.release(lost);
  CHECK(held_on("n0").empty());
}

TEST_CASE("a lost borrower is waited for, too, even if nothing remains of what it had") {
  Fixture f({node_of("n0", 2)});
  const auto [parent, lent] = submit_lender_and_child(f);
  CHECK(lent.lease->parent == parent.lease->id);
  const auto events = f.take(f.ledger.fail_device("n0", lent.lease->devices.front().index, f.now, Holders::stay));
  CHECK(events.size() == 2);
  REQUIRE(f.ledger.remains().size() == 2);
  REQUIRE(f.ledger.find_remains(lent.lease->id) != nullptr);
  CHECK(f.ledger.find_remains(lent.lease->id)->devices.empty());
  CHECK(f.ledger.find_remains(parent.lease->id)->devices.size() == 1);
  f.release(parent);
  f.release(lent);
  CHECK(f.ledger.remains().empty());
  CHECK(f.ledger.release(lent.lease->id, lent.lease->epoch, f.now).error().code() == Errc::lease_expired);
}

TEST_CASE("what a lost borrower keeps is free when its lender's holder has ended, too, whoever ends first") {
  Fixture f({node_of("n0", 2)});
  auto wanted = gpus(2);
  wanted.cpus = Share::whole(16);
  wanted.owner = "a";
  const auto top = f.submit(wanted);
  wanted.parent = top.lease->id;
  wanted.cpus = Share::whole(4);
  wanted.owner = "b";
  const auto child = f.submit(wanted);
  REQUIRE(child.lease->parent == top.lease->id);
  f.take(f.ledger.fail_device("n0", 0, f.now, Holders::stay));
  const auto used_by_a = [&] { return f.ledger.quotas().empty() ? Share{} : f.ledger.quotas().front().used; };
  CHECK(used_by_a() == Share::whole(1));
  const auto waiting = f.submit(gpus(1));
  const bool lender_first = GENERATE(false, true);
  CHECK(f.release(lender_first ? top : child).size() == 1);
  // The child has the device that works, and 4 of the cpus. The lender's process may use what it had lent.
  CHECK(f.ledger.node("n0")->free_cpus == (lender_first ? Share::whole(12) : Share{}));
  CHECK(f.ledger.is_pending(waiting.request));
  CHECK(used_by_a() == Share::whole(1));
  CHECK(f.release(lender_first ? child : top).size() == 2);
  CHECK(f.ledger.node("n0")->free_cpus == Share::whole(16));
}

TEST_CASE("a lost borrower is waited for while others still keep their parts of the same lease") {
  Fixture f({node_of("n0", 3)});
  const auto top = f.submit(gpus(3));
  auto wanted = gpus(2);
  wanted.parent = top.lease->id;
  const auto lost = f.submit(wanted);
  wanted.gpus = Share::whole(1);
  const auto healthy = f.submit(wanted);
  REQUIRE(place(lost) == "n0:0,1");
  REQUIRE(place(healthy) == "n0:2");
  f.take(f.ledger.fail_device("n0", 0, f.now, Holders::stay));
  REQUIRE(f.ledger.find_remains(lost.lease->id) != nullptr);
  CHECK(f.ledger.find_remains(lost.lease->id)->parent == top.lease->id);
  const auto waiting = f.submit(gpus(1));
  const auto second = f.submit(gpus(1));
  const bool lender_ends = GENERATE(false, true);
  const bool device_fails = GENERATE(false, true);
  if (lender_ends)
    CHECK(f.release(top).size() == 1);
  // Whichever way the last borrower goes, the lender's lease goes with it.
  const auto events = device_fails ? f.take(f.ledger.fail_device("n0", 2, f.now, Holders::stay)) : f.release(healthy);
  CHECK(events.size() == (!device_fails && lender_ends ? 2 : 1));
  REQUIRE(f.ledger.find_remains(lost.lease->id) != nullptr);
  CHECK_FALSE(f.ledger.find_remains(lost.lease->id)->parent);
  CHECK((f.ledger.find_remains(healthy.lease->id) != nullptr) == device_fails);
  CHECK(f.ledger.is_pending(second.request));
  // Its part goes back to its lender's, if that is not free yet.
  CHECK(f.release(lost).size() == (lender_ends ? 2 : 1));
  CHECK(f.ledger.is_pending(waiting.request) != lender_ends);
  CHECK(f.ledger.find_remains(lost.lease->id) == nullptr);
  if (!lender_ends)
    f.release(top);
  CHECK_FALSE(f.ledger.is_pending(waiting.request));
}

TEST_CASE("what is kept of a lost lease is counted once, however often it had been lent on") {
  Fixture f({node_of("n0", 2)});
  const auto top = f.submit(gpus(2));
  auto wanted = gpus(2);
  wanted.parent = top.lease->id;
  const auto middle = f.submit(wanted);
  wanted.parent = middle.lease->id;
  const auto bottom = f.submit(wanted);
  REQUIRE(bottom.lease->parent == middle.lease->id);
  // Whoever is in the middle may have ended before: what it has lent on is still within the first one's.
  const bool middle_ended = GENERATE(false, true);
  if (middle_ended)
    f.release(middle);
  CHECK(f.take(f.ledger.fail_device("n0", 0, f.now, Holders::stay)).size() == (middle_ended ? 2 : 3));
  f.ledger.check();
  REQUIRE(f.ledger.remains().size() == (middle_ended ? 2 : 3));
  // Whoever had it last keeps it.
  CHECK(f.ledger.find_remains(bottom.lease->id)->devices.size() == 1);
  CHECK(f.ledger.find_remains(top.lease->id)->devices.empty());
  f.release(top);
  CHECK(f.ledger.node("n0")->devices.back().free_share == Share{});
  f.release(bottom);
  CHECK(f.ledger.node("n0")->devices.back().free_share == (middle_ended ? Share::whole(1) : Share{}));
  if (!middle_ended)
    f.release(middle);
  CHECK(f.ledger.node("n0")->devices.back().free_share == Share::whole(1));
}

TEST_CASE("what a lost lease has lent goes to nobody else before its own holder has ended, too") {
  Fixture f({node_of("n0", 2)});
  const auto [parent, lent] = submit_lender_and_child(f);
  const auto healthy = lent.lease->devices.front().index;
  f.take(f.ledger.fail_device("n0", 1 - healthy, f.now, Holders::stay));
  // The child goes on, on the device that is whole.
  REQUIRE(f.ledger.find_lease(lent.lease->id) != nullptr);
  REQUIRE(f.ledger.find_remains(parent.lease->id) != nullptr);
  const auto waiting = f.submit(gpus(1));
  CHECK(waiting.kind == Kind::pending);
  const bool child_first = GENERATE(false, true);
  CHECK(f.release(child_first ? lent : parent).size() == 1);
  CHECK(f.ledger.remains().size() == (child_first ? 1 : 0));
  const auto events = f.release(child_first ? parent : lent);
  REQUIRE(events.size() == 2);
  CHECK(events[1].request == waiting.request);
  CHECK(f.ledger.release(parent.lease->id, parent.lease->epoch, f.now).error().code() == Errc::lease_expired);
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
