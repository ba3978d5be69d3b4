// The ledger by itself: grants, groups, and a queue of a million. No devices, no messages.
#include "ledger_bed.hpp"
#include "rows.hpp"

#include <ctime>

namespace gpuactors::bench {

namespace {

// Calls a second of processor time: this is one thread that waits for nobody, so other programs need not count.
template <class Step>
double rate(int count, Step step) {
  const auto start = std::clock();
  for (int i = 0; i < count; ++i)
    step();
  return count / (static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
}

double grants(LedgerBed& bed) {
  const auto request = share_of(Share{2'500});
  return rate(200'000, [&] { bed.grant_and_release(request); });
}

double groups(LedgerBed& bed) {
  return rate(20'000, [&] { bed.make_and_remove_group(8); });
}

double wakes(WaitingBed& bed) {
  return rate(20'000, [&] { bed.wake(); });
}

/// Beside a number that the project wants.
Row at_least_target(Row row) {
  row.floor_kind = FloorKind::target;
  row.at_most = false;
  row.bound = 1;
  return row;
}

} // namespace

std::vector<Benchmark> ledger_benchmarks() {
  return {
      {"ledger_grant_release_8_devices",
       [](int repeat) {
         LedgerBed bed(1);
         return at_least_target(measure(
             "ledger_grant_release_8_devices", "1/s", repeat, [&] { return grants(bed); }, [] { return 1e6; }));
       }},
      {"ledger_grant_release_80000_devices",
       [](int repeat) {
         LedgerBed large(10'000);
         LedgerBed small(1);
         auto row = measure(
             "ledger_grant_release_80000_devices", "1/s", repeat, [&] { return grants(large); },
             [&] { return grants(small); });
         row.floor_kind = FloorKind::smaller;
         row.at_most = false;
         row.bound = 1.0 / 3;
         return row;
       }},
      {"ledger_group_of_8_on_10000_nodes",
       [](int repeat) {
         LedgerBed bed(10'000);
         return at_least_target(measure(
             "ledger_group_of_8_on_10000_nodes", "1/s", repeat, [&] { return groups(bed); }, [] { return 2e4; }));
       }},
      {"ledger_bytes_a_waiting_request",
       [](int) {
         const WaitingBed waiting(1'000'000);
         Row row;
         row.name = "ledger_bytes_a_waiting_request";
         row.unit = "bytes";
         row.value = waiting.bytes_each;
         row.floor = 1024;
         row.floor_kind = FloorKind::target;
         row.ratio = row.least = row.most = row.value / row.floor;
         row.bound = 1;
         return row;
       }},
      {"ledger_wake_among_1000000",
       [](int repeat) {
         WaitingBed many(1'000'000);
         WaitingBed few(1'000);
         auto row = measure(
             "ledger_wake_among_1000000", "1/s", repeat, [&] { return wakes(many); }, [&] { return wakes(few); });
         row.floor_kind = FloorKind::smaller;
         row.at_most = false;
         row.bound = 0.1;
         return row;
       }},
  };
}

} // namespace gpuactors::bench
