// The ledger by itself: grants, groups, and a queue of a million. No devices, no messages.
#include "rows.hpp"

#include <gpuactors/ledger/ledger.hpp>

#include <malloc.h>

#include <cstdlib>
#include <ctime>

namespace gpuactors::bench {

namespace {

constexpr std::uint64_t device_bytes = 80'000'000'000;

NodeSpec node_of(const std::string& name, int devices) {
  NodeSpec node;
  node.name = name;
  node.cpus = Share::whole(64);
  node.devices.assign(static_cast<std::size_t>(devices), DeviceSpec{"", device_bytes, ""});
  return node;
}

ResourceRequest share_of(Share gpus) {
  ResourceRequest request;
  request.gpus = gpus;
  return request;
}

// A ledger and the ids that it has seen.
struct LedgerBench {
  explicit LedgerBench(int nodes, int devices = 8) {
    for (int i = 0; i < nodes; ++i)
      if (!ledger.add_node(node_of("n" + std::to_string(100'000 + i), devices), TimePoint{}))
        std::abort();
  }

  Lease acquire(const ResourceRequest& request) {
    const auto events = ledger.submit(RequestId{++last}, request, TimePoint{});
    if (!events.front().lease)
      std::abort();
    return *events.front().lease;
  }

  Ledger::Events release(const Lease& lease) {
    auto events = ledger.release(lease.id, lease.epoch, TimePoint{});
    if (!events)
      std::abort();
    return std::move(*events);
  }

  Ledger ledger;
  std::uint64_t last = 0;
};

// Calls a second of processor time: this is one thread that waits for nobody, so other programs need not count.
template <class Step>
double rate(int count, Step step) {
  const auto start = std::clock();
  for (int i = 0; i < count; ++i)
    step();
  return count / (static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
}

double grants(LedgerBench& bench) {
  const auto request = share_of(Share{2'500});
  return rate(200'000, [&] { bench.release(bench.acquire(request)); });
}

double groups(LedgerBench& bench) {
  GroupRequest group;
  group.bundles.assign(8, share_of(Share::whole(1)));
  return rate(20'000, [&] {
    bench.ledger.submit_group(GroupId{++bench.last}, group, TimePoint{});
    if (!bench.ledger.release_group(GroupId{bench.last}, TimePoint{}))
      std::abort();
  });
}

// A full node and requests that wait for it, all different.
struct Waiting {
  explicit Waiting(std::uint64_t count) {
    const auto whole = share_of(Share::whole(1));
    for (int i = 0; i < 8; ++i)
      held.push_back(bench.acquire(whole));
    const auto before = allocated();
    for (std::uint64_t i = 0; i < count; ++i) {
      auto request = whole;
      request.memory_bytes = device_bytes / 2 + i;
      bench.ledger.submit(RequestId{++bench.last}, request, TimePoint{});
    }
    bytes_each = (allocated() - before) / static_cast<double>(count);
  }

  static double allocated() {
    const auto info = mallinfo2();
    return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
  }

  // A release, the next one's grant, and a new one at the end of the queue.
  double wakes() {
    return rate(20'000, [&] {
      auto& lease = held[next++ % held.size()];
      const auto events = bench.release(lease);
      if (!events.back().lease)
        std::abort();
      lease = *events.back().lease;
      auto request = share_of(Share::whole(1));
      request.memory_bytes = device_bytes / 4 + next;
      bench.ledger.submit(RequestId{++bench.last}, request, TimePoint{});
    });
  }

  LedgerBench bench{1};
  std::vector<Lease> held;
  std::size_t next = 0;
  double bytes_each = 0;
};

Row at_least(Row row) {
  row.at_most = false;
  row.bound = 1;
  return row;
}

} // namespace

std::vector<Benchmark> ledger_benchmarks() {
  return {
      {"ledger_grant_release_8_devices",
       [](int repeat) {
         LedgerBench bench(1);
         return at_least(measure(
             "ledger_grant_release_8_devices", "1/s", repeat, [&] { return grants(bench); }, [] { return 1e6; }));
       }},
      {"ledger_grant_release_80000_devices",
       [](int repeat) {
         LedgerBench large(10'000);
         LedgerBench small(1);
         auto row = measure(
             "ledger_grant_release_80000_devices", "1/s", repeat, [&] { return grants(large); },
             [&] { return grants(small); });
         row.at_most = false;
         row.bound = 1.0 / 3;
         return row;
       }},
      {"ledger_group_of_8_on_10000_nodes",
       [](int repeat) {
         LedgerBench bench(10'000);
         return at_least(measure(
             "ledger_group_of_8_on_10000_nodes", "1/s", repeat, [&] { return groups(bench); }, [] { return 2e4; }));
       }},
      {"ledger_bytes_a_waiting_request",
       [](int) {
         const Waiting waiting(1'000'000);
         Row row;
         row.name = "ledger_bytes_a_waiting_request";
         row.unit = "bytes";
         row.value = waiting.bytes_each;
         row.floor = 1024;
         row.ratio = row.least = row.most = row.value / row.floor;
         row.bound = 1;
         return row;
       }},
      {"ledger_wake_among_1000000",
       [](int repeat) {
         Waiting many(1'000'000);
         Waiting few(1'000);
         auto row = measure(
             "ledger_wake_among_1000000", "1/s", repeat, [&] { return many.wakes(); }, [&] { return few.wakes(); });
         row.at_most = false;
         row.bound = 0.1;
         return row;
       }},
  };
}

} // namespace gpuactors::bench
