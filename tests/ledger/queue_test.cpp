#include <ledger/fixture.hpp>

using namespace ledger_test;

namespace {

ResourceRequest with_priority(ResourceRequest request, int priority) {
  request.priority = priority;
  return request;
}

} // namespace

TEST_CASE("of four tasks of 0.3 on one device three run and the fourth waits for the first to finish") {
  Fixture f({node_of("n0", 1)});
  const auto first = f.submit(gpus(0.3));
  CHECK(f.submit(gpus(0.3)).kind == Kind::granted);
  CHECK(f.submit(gpus(0.3)).kind == Kind::granted);
  const auto fourth = f.submit(gpus(0.3));
  CHECK(fourth.kind == Kind::pending);
  CHECK(fourth.reason == "no node has 0.3 of a device free: the most on one device is 0.1, on node n0");
  const auto events = f.release(first);
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == Kind::released);
  CHECK(events[1].kind == Kind::granted);
  CHECK(events[1].request == fourth.request);
}

TEST_CASE("higher priority is served first, then the older") {
  Fixture f({node_of("n0", 1)});
  auto holder = f.submit(gpus(1));
  const auto old = f.submit(gpus(1)).request;
  const auto young = f.submit(gpus(1)).request;
  const auto high = f.submit(with_priority(gpus(1), 1)).request;
  const auto low = f.submit(with_priority(gpus(1), -1)).request;
  for (const auto next : {high, old, young, low}) {
    holder = f.release(holder).back();
    CHECK(holder.request == next);
  }
}

TEST_CASE("smaller requests are served while a larger one cannot be") {
  Fixture f({node_of("n0", 2)});
  f.submit(gpus(0.5));
  f.submit(gpus(0.7));
  CHECK(f.submit(gpus(1)).kind == Kind::pending);
  CHECK(f.submit(gpus(0.5)).kind == Kind::granted);
}

TEST_CASE("a request that does not queue, or may wait no time, is rejected with no_capacity") {
  Fixture f({node_of("n0", 1)});
  f.submit(gpus(1));
  auto request = gpus(1);
  request.queue = false;
  CHECK(f.submit(request).code == Errc::no_capacity);
  request.queue = true;
  request.queue_timeout = seconds{0};
  CHECK(f.submit(request).code == Errc::no_capacity);
  CHECK(f.ledger.pending_count() == 0);
}

TEST_CASE("a bounded queue says that it is full") {
  LedgerOptions options;
  options.max_pending = 2;
  Fixture f({node_of("n0", 1)}, options);
  f.submit(gpus(1));
  f.submit(gpus(1));
  f.submit(gpus(1));
  const auto event = f.submit(gpus(1));
  CHECK(event.code == Errc::queue_full);
  CHECK(event.kind == Kind::rejected);
}

TEST_CASE("a queue timeout rejects with no_capacity, not before its time") {
  Fixture f({node_of("n0", 1)});
  f.submit(gpus(1));
  auto request = gpus(0.5);
  request.queue_timeout = seconds{5};
  f.submit(request);
  CHECK(f.ledger.next_timeout() == TimePoint{} + seconds{5});
  CHECK(f.advance(seconds{4}).empty());
  const auto events = f.advance(seconds{1});
  REQUIRE(events.size() == 1);
  CHECK(events.front().kind == Kind::rejected);
  CHECK(events.front().code == Errc::no_capacity);
  CHECK_FALSE(f.ledger.next_timeout());
}

TEST_CASE("any call notices that a wait is over, and the answer to the call comes first") {
  Fixture f({node_of("n0", 1)});
  f.submit(gpus(1));
  auto request = gpus(0.5);
  request.queue_timeout = seconds{5};
  f.submit(request);
  f.now += seconds{6};
  f.submit(gpus(0.1));
  REQUIRE(f.events.size() == 2);
  CHECK(f.events.back().code == Errc::no_capacity);
}

TEST_CASE("cancel withdraws what waits, and nothing else") {
  Fixture f({node_of("n0", 1)});
  const auto held = f.submit(gpus(1));
  const auto waiting = f.submit(gpus(1));
  const auto events = f.take(f.ledger.cancel(waiting.request, f.now));
  CHECK(events.front().kind == Kind::released);
  CHECK_FALSE(events.front().lease.has_value());
  CHECK(f.ledger.cancel(waiting.request, f.now).error().code() == Errc::not_found);
  CHECK(f.ledger.cancel(held.request, f.now).error().code() == Errc::invalid_argument);
}

TEST_CASE("a lease is released once, by its own epoch") {
  Fixture f({node_of("n0", 1)});
  const auto held = f.submit(gpus(1));
  const auto& lease = *held.lease;
  CHECK(f.ledger.release(lease.id, lease.epoch + 1, f.now).error().code() == Errc::stale_epoch);
  f.release(held);
  CHECK(f.ledger.release(lease.id, lease.epoch, f.now).error().code() == Errc::lease_expired);
  CHECK(f.ledger.release(LeaseId{99}, 1, f.now).error().code() == Errc::not_found);
  const auto next = f.submit(gpus(1));
  CHECK(next.lease->id > lease.id);
  CHECK(next.lease->epoch > lease.epoch);
}

TEST_CASE("a request may wait for a node that could take it") {
  Fixture f({node_of("n0", 1)});
  auto request = gpus(4);
  request.wait_for_nodes = true;
  const auto waiting = f.submit(request);
  CHECK(waiting.kind == Kind::pending);
  CHECK(waiting.reason == "it waits for new nodes: no node has 4 devices: node n0 has 1");
  const auto events = f.take(f.ledger.add_node(node_of("n1", 4), f.now));
  REQUIRE(events.size() == 1);
  CHECK(place(events.front()) == "n1:0,1,2,3");
}

TEST_CASE("1000 waiting requests of one shape are served one by one in order") {
  Fixture f({node_of("n0", 1)});
  auto holder = f.submit(gpus(1));
  for (int i = 0; i < 1000; ++i)
    f.ledger.submit(RequestId{++f.last_request}, gpus(1), f.now);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto events = f.ledger.release(holder.lease->id, holder.lease->epoch, f.now);
    REQUIRE(events->size() == 2);
    REQUIRE(events->back().request.value() == i + 2);
    holder = events->back();
  }
}

TEST_CASE("of many different requests that wait, only so many reasons are found, and the rest is still told") {
  Fixture f({node_of("n0", 1)});
  f.submit(gpus(1));
  for (int i = 1; i <= 3; ++i) {
    auto request = gpus(0.1 * i);
    f.submit(request);
    f.submit(request);
  }
  std::vector<bool> explained;
  f.ledger.for_each_pending(2, [&](const PendingView& view) {
    explained.push_back(!view.reason.empty());
    return explained.size() < 5;
  });
  CHECK(explained == std::vector<bool>{true, true, true, true, false});
  CHECK(f.ledger.pending().size() == 6);
}

TEST_CASE("a ledger can be moved while leases are lent and requests wait") {
  Fixture f({node_of("n0", 2), node_of("n1", 2)});
  auto spread = gpus(1);
  spread.strategy = Strategy::spread;
  const auto parent = f.submit(spread);
  auto child = gpus(0.5);
  child.parent = parent.lease->id;
  child.wait_for_nodes = true;
  CHECK(f.submit_group(GroupStrategy::strict_spread, {gpus(1), gpus(1)}).kind == Kind::granted);
  const auto last = f.submit(gpus(1));
  CHECK(f.submit(child).lease->parent == parent.lease->id);
  const auto waiting = f.submit(gpus(1));
  CHECK(waiting.kind == Kind::pending);
  f.advance(seconds{2});
  CHECK(f.ledger.reservations().size() == 1);

  auto moved = std::move(f.ledger);
  moved.check();
  f.ledger = Ledger{};
  f.ledger = std::move(moved);
  f.ledger.check();
  CHECK(f.ledger.leases().size() == 3);
  CHECK(f.ledger.bundles_of(GroupId{1}).size() == 2);
  CHECK(f.release(last).back().request == waiting.request);
}
