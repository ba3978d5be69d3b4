// How fast and how large: hidden, run with `test_ledger "[speed]"`. Prints numbers; checks only what no machine should
// miss.
#include <ledger/fixture.hpp>
#include <malloc.h>

#include <ctime>
#include <iostream>

using namespace ledger_test;

namespace {

Ledger ledger_with(int nodes, int devices) {
  Ledger ledger;
  for (int i = 0; i < nodes; ++i) {
    auto name = std::to_string(i);
    name.insert(0, 5 - name.size(), '0');
    REQUIRE(ledger.add_node(node_of("n" + name, devices, 80'000'000'000), TimePoint{}));
  }
  return ledger;
}

// Processor time, so that other programs on the machine do not count.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Calls `step` until a second is over; returns calls a second.
template <class Step>
double rate(Step step) {
  const auto start = cpu_seconds();
  std::uint64_t count = 0;
  while (cpu_seconds() - start < 1)
    for (int i = 0; i < 100; ++i, ++count)
      step();
  return static_cast<double>(count) / (cpu_seconds() - start);
}

double grants_a_second(Ledger& ledger, std::uint64_t& id, const ResourceRequest& request, std::size_t held_back) {
  std::vector<Lease> held;
  for (std::size_t i = 0; i < held_back; ++i)
    held.push_back(*ledger.submit(RequestId{++id}, request, TimePoint{}).front().lease);
  std::size_t next = 0;
  // A fixed stride through the leases, so that a release hits any of them.
  const auto result = rate([&] {
    auto lease = *ledger.submit(RequestId{++id}, request, TimePoint{}).front().lease;
    if (!held.empty()) {
      next = (next + 7919) % held.size();
      std::swap(lease, held[next]);
    }
    if (!ledger.release(lease.id, lease.epoch, TimePoint{}))
      FAIL("a lease could not be released");
  });
  for (const auto& lease : held)
    REQUIRE(ledger.release(lease.id, lease.epoch, TimePoint{}));
  return result;
}

// What is allocated, the allocator's own overhead included.
std::size_t allocated_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

} // namespace

TEST_CASE("speed: grant and release of a quarter of a device", "[.][speed]") {
  std::uint64_t id = 0;
  auto small = ledger_with(1, 8);
  auto large = ledger_with(10'000, 8);
  const auto few = grants_a_second(small, id, gpus(0.25), 0);
  const auto many = grants_a_second(large, id, gpus(0.25), 0);
  std::cout << "grant + release of 0.25, none held: " << few << "/s on 8 devices, " << many << "/s on 80,000\n";
  const auto busy_few = grants_a_second(small, id, gpus(0.25), 24);
  const auto busy_many = grants_a_second(large, id, gpus(0.25), 240'000);
  std::cout << "grant + release of 0.25, three quarters held: " << busy_few << "/s on 8 devices, " << busy_many
            << "/s on 80,000\n";
  CHECK(many * 10 > few);
}

TEST_CASE("speed: a placement group of 8 bundles on 10,000 nodes", "[.][speed]") {
  auto ledger = ledger_with(10'000, 8);
  for (const auto strategy :
       {GroupStrategy::pack, GroupStrategy::spread, GroupStrategy::strict_pack, GroupStrategy::strict_spread}) {
    std::uint64_t id = 0;
    GroupRequest group;
    group.strategy = strategy;
    group.bundles.assign(8, gpus(1));
    const auto result = rate([&] {
      ledger.submit_group(GroupId{++id}, group, TimePoint{});
      if (!ledger.release_group(GroupId{id}, TimePoint{}))
        FAIL("a group could not be removed");
    });
    std::cout << "group of 8 on 10,000 nodes, strategy " << static_cast<int>(strategy) << ": " << result << "/s\n";
  }
}

TEST_CASE("speed: a million waiting requests", "[.][speed]") {
  // What they wait for, all different but in the first case. What is released serves one of them at a time; of the last
  // three there is none that it could serve but the last one.
  struct Case {
    const char* name;
    void (*vary)(ResourceRequest&, std::uint64_t);
    bool blocked;
  };
  const Case cases[] = {
      {"alike", [](ResourceRequest&, std::uint64_t) {}, false},
      {"memory differs", [](ResourceRequest& r, std::uint64_t i) { r.memory_bytes = 40'000'000'000 + i; }, false},
      {"blocked by cpus",
       [](ResourceRequest& r, std::uint64_t i) {
         r.gpus = Share{1};
         r.cpus = Share{200'000 + static_cast<std::int64_t>(i)};
       },
       true},
      {"blocked by cpus or share",
       [](ResourceRequest& r, std::uint64_t i) {
         r.gpus = Share{i % 2 == 0 ? 1 : 9000};
         r.cpus = Share{i % 2 == 0 ? 200'000 + static_cast<std::int64_t>(i) : static_cast<std::int64_t>(i)};
       },
       true},
      {"blocked by a custom resource",
       [](ResourceRequest& r, std::uint64_t i) {
         r.gpus = Share{1};
         r.resources["x"] = Share{200'000 + static_cast<std::int64_t>(i)};
       },
       true},
      {"blocked by labels",
       [](ResourceRequest& r, std::uint64_t i) {
         r.gpus = Share{1 + static_cast<std::int64_t>(i / 1000)};
         r.labels["zone" + std::to_string(i % 1000)] = "a";
       },
       true},
  };
  for (const auto& one : cases) {
    Ledger ledger;
    REQUIRE(ledger.add_node(node_of("n0", one.blocked ? 4 : 8, 80'000'000'000), TimePoint{}));
    // Feasible for all, and full: it has the cpus, resources and labels that are asked for, but no device.
    auto far = node_of("n1", 1, 80'000'000'000);
    far.cpus = Share::whole(1000);
    far.resources["x"] = Share::whole(1000);
    for (int i = 0; i < 1000; ++i)
      far.labels["zone" + std::to_string(i)] = "a";
    REQUIRE(ledger.add_node(far, TimePoint{}));
    std::uint64_t id = 0;
    auto hold = gpus(1);
    hold.node = "n1";
    REQUIRE(ledger.submit(RequestId{++id}, hold, TimePoint{}).front().lease);
    hold.node = "n0";
    if (one.blocked)
      hold.gpus = Share{5000};
    std::vector<Lease> held;
    for (int i = 0; i < 8; ++i)
      held.push_back(*ledger.submit(RequestId{++id}, hold, TimePoint{}).front().lease);
    constexpr std::uint64_t count = 1'000'000;
    const auto before = allocated_bytes();
    const auto start = cpu_seconds();
    for (std::uint64_t i = 0; i < count; ++i) {
      auto request = gpus(1);
      one.vary(request, i);
      ledger.submit(RequestId{++id}, request, TimePoint{});
    }
    const auto took = cpu_seconds() - start;
    const auto size = (allocated_bytes() - before) / count;
    CHECK(ledger.pending_count() == count);
    std::cout << one.name << ": " << size << " bytes a waiting request, " << static_cast<double>(count) / took
              << " submitted a second\n";
    CHECK(size <= 1024);
    std::size_t next = 0;
    const auto speed = rate([&] {
      auto& lease = held[next++ % held.size()];
      const auto events = ledger.release(lease.id, lease.epoch, TimePoint{});
      if (!one.blocked) {
        REQUIRE(events->back().kind == Kind::granted);
        lease = *events->back().lease;
        return;
      }
      // Nobody can be served: somebody new takes it.
      REQUIRE(events->size() == 1);
      lease = *ledger.submit(RequestId{++id}, hold, TimePoint{}).front().lease;
    });
    std::cout << "  release that asks all that wait: " << speed << "/s\n";
    CHECK(speed > 10'000);
  }
}

TEST_CASE("speed: groups of many bundles, one more than there is room for", "[.][speed]") {
  for (const auto strategy : {GroupStrategy::pack, GroupStrategy::spread}) {
    auto ledger = ledger_with(32, 8);
    // So that sums would suffice: half a device is free on each of eight, where nothing of the group fits.
    for (int i = 0; i < 8; ++i)
      REQUIRE(ledger.submit(RequestId{1U + static_cast<unsigned>(i)}, gpus(0.51), TimePoint{}).front().lease);
    GroupRequest group;
    group.strategy = strategy;
    group.bundles.assign(503, gpus(0.5));
    const auto start = cpu_seconds();
    CHECK(ledger.submit_group(GroupId{1}, group, TimePoint{}).front().kind == Event::Kind::pending);
    const auto took = cpu_seconds() - start;
    std::cout << "a group of 503 bundles that does not fit on 256 devices: " << took << " s\n";
    CHECK(took < 2);
  }
}

TEST_CASE("speed: a group for one node, where none of thousands has the room", "[.][speed]") {
  constexpr unsigned nodes = 5'000;
  auto ledger = ledger_with(nodes, 8);
  auto each = gpus(1);
  each.strategy = Strategy::spread;
  for (unsigned i = 1; i <= nodes; ++i)
    REQUIRE(ledger.submit(RequestId{i}, each, TimePoint{}).front().lease);
  GroupRequest group;
  group.strategy = GroupStrategy::strict_pack;
  group.bundles = {gpus(5), gpus(3)};
  const auto start = cpu_seconds();
  CHECK(ledger.submit_group(GroupId{1}, group, TimePoint{}).front().kind == Event::Kind::pending);
  const auto took = cpu_seconds() - start;
  std::cout << "a group for one node that " << nodes << " nodes have no room for: " << took << " s\n";
  CHECK(took < 0.5);
}
