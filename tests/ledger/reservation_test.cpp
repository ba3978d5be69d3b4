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
