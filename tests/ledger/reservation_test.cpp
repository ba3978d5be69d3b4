#include <ledger/fixture.hpp>

#include <deque>

using namespace ledger_test;

TEST_CASE("a whole-device request is served although fractional ones keep coming, by count of grants") {
  Fixture f({node_of("n0", 1)});
  std::deque<Event> held;
  held.push_back(f.submit(gpus(0.5)));
  held.push_back(f.submit(gpus(0.5)));
  const auto whole = f.submit(gpus(1)).request;
  int grants_behind = 0;
  bool served = false;
  // Each that ends is followed by another of the same kind; time stands still.
  for (int step = 0; step < 100 && !served; ++step) {
    const auto ended = held.front();
    held.pop_front();
    for (const auto& event : f.release(ended))
      if (event.kind == Kind::granted) {
        served |= event.request == whole;
        if (event.request != whole)
          held.push_back(event);
      }
    if (served)
      break;
    const auto next = f.submit(gpus(0.5));
    if (next.kind == Kind::granted) {
      ++grants_behind;
      held.push_back(next);
    }
  }
  CHECK(served);
  CHECK(grants_behind == LedgerOptions{}.reservation_passes);
}

TEST_CASE("a place is held back after a time, and moves to where a release leaves less missing") {
  Fixture f({node_of("n0", 2)});
  f.submit(gpus(1));
  auto a = f.submit(gpus(0.5));
  auto b = f.submit(gpus(0.5));
  const auto whole = f.submit(gpus(1));
  CHECK(f.advance(std::chrono::milliseconds{999}).empty());
  CHECK(f.ledger.reservations().empty());
  f.advance(std::chrono::milliseconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  const auto reserved = f.ledger.reservations().front();
  CHECK(reserved.request == whole.request);
  // As much is missing on both devices: the lower index.
  CHECK(reserved.places.front().devices == std::vector{DeviceGrant{0, Share::whole(1), 100}});
  f.release(a);
  CHECK(f.ledger.reservations().front().places.front().devices.front().index == 1);
  const auto behind = f.submit(gpus(0.5));
  CHECK(behind.kind == Kind::pending);
  CHECK(behind.reason
        == "what is free is held back for request 4, which has waited longer: on node n0, for at most 30 s");
  const auto events = f.release(b);
  CHECK(events.back().request == whole.request);
  CHECK(f.ledger.reservations().empty());
}

TEST_CASE("what is held back does not bind requests that come first") {
  Fixture f({node_of("n0", 1)});
  const auto half = f.submit(gpus(0.5));
  f.submit(gpus(1));
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.submit(gpus(0.5)).kind == Kind::pending);
  auto urgent = gpus(0.5);
  urgent.priority = 1;
  CHECK(f.submit(urgent).kind == Kind::granted);
}

TEST_CASE("only what the reserved request is short of is held back") {
  Fixture f({node_of("n0", 1)});
  f.submit(gpus(0.4));
  f.submit(gpus(0.4));
  f.submit(gpus(0.5));
  f.advance(seconds{1});
  // 0.2 is free and 0.5 is to be kept.
  CHECK(f.submit(gpus(0.1)).kind == Kind::pending);
  Fixture g({node_of("n0", 2)});
  g.submit(gpus(0.8));
  g.submit(gpus(0.7));
  g.submit(gpus(0.5));
  g.advance(seconds{1});
  // The place is on device 1, where less is missing; device 0 is open to all.
  CHECK(place(g.submit(gpus(0.2))) == "n0:0");
}

TEST_CASE("a reservation ends after its time, what it held back is granted, and the next is elsewhere") {
  Fixture f({node_of("n0", 2)});
  f.submit(gpus(0.5));
  f.submit(gpus(0.6));
  const auto whole = f.submit(gpus(1)).request;
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().places.front().devices.front().index == 0);
  const auto waiting = f.submit(gpus(0.45)).request;
  CHECK(f.ledger.next_timeout() == TimePoint{} + seconds{31});
  const auto events = f.advance(seconds{30});
  REQUIRE(events.size() == 1);
  CHECK(events.front().request == waiting);
  CHECK(f.ledger.reservations().empty());
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().request == whole);
  CHECK(f.ledger.reservations().front().places.front().devices.front().index == 1);
}

TEST_CASE("each priority has at most one reservation, for its oldest blocked request") {
  Fixture f({node_of("n0", 4)});
  for (int i = 0; i < 4; ++i)
    f.submit(gpus(0.9));
  auto high = gpus(1);
  high.priority = 1;
  const auto first = f.submit(high).request;
  f.submit(high);
  const auto second = f.submit(gpus(1)).request;
  f.submit(gpus(1));
  f.advance(seconds{1});
  const auto reservations = f.ledger.reservations();
  REQUIRE(reservations.size() == 2);
  CHECK(reservations[0].request == second);
  CHECK(reservations[1].request == first);
  CHECK(reservations[0].places.front().devices != reservations[1].places.front().devices);
}

TEST_CASE("a withdrawn request holds nothing back any more") {
  Fixture f({node_of("n0", 1)});
  f.submit(gpus(0.5));
  const auto whole = f.submit(gpus(1));
  f.advance(seconds{1});
  const auto behind = f.submit(gpus(0.5));
  CHECK(behind.kind == Kind::pending);
  const auto events = f.take(f.ledger.cancel(whole.request, f.now));
  CHECK(events.back().request == behind.request);
}

TEST_CASE("a blocked group has its places held back, too") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  auto a = f.submit(gpus(0.5));
  auto b = f.submit(gpus(0.6));
  CHECK(f.submit_group(GroupStrategy::strict_spread, {gpus(1), gpus(1)}).kind == Kind::pending);
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().places.size() == 2);
  CHECK(f.submit(gpus(0.3)).kind == Kind::pending);
  f.release(a);
  const auto events = f.release(b);
  CHECK(events.back().group == GroupId{1});
  CHECK(events.back().kind == Kind::granted);
}

TEST_CASE("for what waits for a drained node no place is held back, and it keeps none from those behind it") {
  Fixture f({node_of("n0", 2), node_of("n1", 1)});
  f.submit(gpus(2));
  const auto both = f.submit(gpus(2));
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().request == both.request);
  f.take(f.ledger.drain_node("n0", f.now));
  CHECK(f.ledger.reservations().empty());
  // The oldest one with a place on nodes that take leases is next.
  f.submit(gpus(0.75));
  const auto one = f.submit(gpus(1));
  CHECK(one.reason == "no node has 1 device free: node n1 has 0");
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().request == one.request);
  // It has waited all the time: when the node is back, a place there is held back for it at once.
  f.take(f.ledger.undrain_node("n0", f.now));
  f.advance(Duration::zero());
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().request == both.request);
}

TEST_CASE("a group that is removed ends no reservation on its node") {
  Fixture f({node_of("n0", 2)});
  f.submit(gpus(0.5));
  const auto whole = f.submit(gpus(2));
  ResourceRequest cpu;
  cpu.cpus = Share::whole(1);
  GroupRequest shrinking;
  shrinking.bundles = {cpu};
  shrinking.shrinks = true;
  const auto kept = f.submit_group(GroupStrategy::pack, {cpu});
  const auto shrinks = f.submit_group(shrinking);
  cpu.group = shrinks.group;
  const auto inside = f.submit(cpu);
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  const auto until = f.ledger.reservations().front().until;
  f.advance(seconds{1});
  f.take(f.ledger.release_group(kept.group, f.now));
  // With its last lease the bundle goes, and the group.
  CHECK(f.release(inside).size() == 2);
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().request == whole.request);
  CHECK(f.ledger.reservations().front().until == until);
}

TEST_CASE("what is reserved in a bundle is free when the bundle has gone, and nowhere else") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  GroupRequest group;
  group.strategy = GroupStrategy::strict_spread;
  group.bundles.assign(2, gpus(1));
  group.shrinks = true;
  const auto id = f.submit_group(group).group;
  const auto in_group = [&](int bundle, double amount) {
    auto request = gpus(amount);
    request.group = id;
    request.bundle = bundle;
    return f.submit(request);
  };
  const auto first = in_group(0, 0.5);
  in_group(1, 0.5);
  const auto waits = in_group(-1, 1);
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  REQUIRE(f.ledger.reservations().front().places.front().node == "n0");
  f.release(first);
  CHECK(f.ledger.reservations().empty());
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 1);
  CHECK(f.ledger.reservations().front().request == waits.request);
  CHECK(f.ledger.reservations().front().places.front().node == "n1");
}

namespace {

// "n0:0 n0:1"
std::string reserved(const Ledger& ledger) {
  std::string text;
  for (const auto& reservation : ledger.reservations())
    for (const auto& at : reservation.places) {
      text += (text.empty() ? "" : " ") + at.node;
      for (const auto& device : at.devices)
        text += ":" + std::to_string(device.index);
    }
  return text;
}

// Lets what is reserved end in vain, and what follows begin.
std::string reserved_next(Fixture& f) {
  f.advance(seconds{30});
  CHECK(f.ledger.reservations().empty());
  f.advance(seconds{1});
  return reserved(f.ledger);
}

} // namespace

TEST_CASE("a group whose places were reserved in vain gets others reserved") {
  Fixture f({node_of("n0", 5)});
  f.submit(gpus(1));
  std::vector<Event> fractions;
  for (int i = 0; i < 4; ++i)
    fractions.push_back(f.submit(gpus(0.6)));
  const auto group = f.submit_group(GroupStrategy::pack, {gpus(1), gpus(1)}).group;
  f.advance(seconds{1});
  CHECK(reserved(f.ledger) == "n0:0 n0:1");
  // What is free by now was not in vain.
  f.release(fractions[0]);
  CHECK(reserved_next(f) == "n0:1 n0:2");
  const auto events = f.release(fractions[1]);
  REQUIRE(events.size() == 2);
  CHECK(events[1].kind == Kind::granted);
  CHECK(events[1].group == group);
}

TEST_CASE("a group for which too little is left that was not tried gets what is nearest to being free of the rest") {
  Fixture f({node_of("n0", 3)});
  f.submit(gpus(1));
  f.submit(gpus(0.6));
  f.submit(gpus(0.7));
  f.submit_group(GroupStrategy::pack, {gpus(1), gpus(1)});
  f.advance(seconds{1});
  CHECK(reserved(f.ledger) == "n0:0 n0:1");
  CHECK(reserved_next(f) == "n0:1 n0:2");
  CHECK(reserved_next(f) == "n0:0 n0:2");
}

TEST_CASE("what has no device reserved, or lacks something else, gets another node reserved after one was in vain") {
  auto small = node_of("n0", 2);
  small.resources["x"] = Share::whole(8);
  auto large = small;
  large.name = "n1";
  Fixture f({small, large});
  // One lease that stays and takes nearly all on n0, many on n1: more is missing there at first.
  ResourceRequest rest;
  rest.node = "n0";
  rest.resources["x"] = Share::whole(7);
  rest.cpus = Share::whole(14);
  f.submit(rest);
  rest.node = "n1";
  rest.resources["x"] = Share::whole(1);
  rest.cpus = Share::whole(2);
  for (int i = 0; i < 8; ++i)
    f.submit(rest);
  ResourceRequest wanted;
  SECTION("cpus") {
    wanted.cpus = Share::whole(16);
  }
  SECTION("a custom resource") {
    wanted.resources["x"] = Share::whole(8);
  }
  SECTION("a custom resource beside a device") {
    wanted = gpus(0.25);
    wanted.resources["x"] = Share::whole(8);
  }
  f.submit(wanted);
  f.advance(seconds{1});
  CHECK(reserved(f.ledger).substr(0, 2) == "n0");
  CHECK(reserved_next(f).substr(0, 2) == "n1");
  CHECK(reserved_next(f).substr(0, 2) == "n0");
}

TEST_CASE("a place is reserved where the least of what is asked is missing, besides devices too") {
  auto node = node_of("n0", 1);
  node.resources["x"] = Share::whole(4);
  auto other = node;
  other.name = "n1";
  Fixture f({node, other});
  ResourceRequest held;
  held.node = "n0";
  held.resources["x"] = Share::whole(3);
  f.submit(held);
  held.node = "n1";
  held.resources["x"] = Share::whole(1);
  f.submit(held);
  auto wanted = gpus(0.5);
  wanted.resources["x"] = Share::whole(4);
  f.submit(wanted);
  f.advance(seconds{1});
  CHECK(reserved(f.ledger) == "n1:0");
}

TEST_CASE("who waits is told of the reservation that is in its way, and a verdict of one that is there") {
  Fixture f({node_of("n0", 1), node_of("n1", 1)});
  auto on = [](const char* node, double amount, int priority) {
    auto request = gpus(amount);
    request.node = node;
    request.priority = priority;
    return request;
  };
  f.submit(on("n0", 0.5, 0));
  f.submit(on("n1", 0.5, 0));
  f.submit(on("n1", 1, 0));
  f.submit(on("n0", 1, 1));
  f.advance(seconds{1});
  REQUIRE(f.ledger.reservations().size() == 2);
  const auto text = [](int request, const char* node) {
    return "what is free is held back for request " + std::to_string(request) + ", which has waited longer: on node "
           + node + ", for at most 30 s";
  };
  CHECK(f.submit(on("n0", 0.25, 0)).reason == text(4, "n0"));
  CHECK(f.submit(on("n1", 0.25, 0)).reason == text(3, "n1"));
  const auto verdicts = f.ledger.verdicts(gpus(0.25));
  REQUIRE(verdicts.size() == 2);
  CHECK(verdicts[0].reason == text(4, "n0"));
  CHECK(verdicts[1].reason == text(3, "n1"));
}

TEST_CASE("all that wait as long for the same in vain are told why") {
  Fixture f({node_of("n0", 1)});
  f.submit(gpus(0.75));
  auto request = gpus(0.5);
  request.queue_timeout = seconds{5};
  for (int i = 0; i < 3; ++i)
    f.submit(request);
  auto other = gpus(0.25);
  other.queue_timeout = seconds{5};
  f.advance(seconds{1});
  f.submit(other);
  const auto events = f.advance(seconds{4});
  REQUIRE(events.size() == 4);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(events[i].reason
          == "waited 5 s in vain: no node has 0.5 of a device free: the most on one device is 0.25, on node n0");
  CHECK(events[3].kind == Kind::granted);
  f.take(f.ledger.drain_node("n0", f.now));
  f.submit(request);
  f.submit(gpus(1));
  f.submit(request);
  const auto gone = f.take(f.ledger.remove_node("n0", f.now));
  REQUIRE(gone.size() == 5);
  for (std::size_t i = 2; i < 5; ++i)
    CHECK(gone[i].reason == "no node is registered");
}
