// Resident memory after a million tasks, beside where ten thousand left it.
#include "rows.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace gpuactors::bench {

namespace {

double resident_mib() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  long pages = 0;
  if (file == nullptr || std::fscanf(file, "%*d %ld", &pages) != 1)
    std::exit(1);
  std::fclose(file);
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void run_tasks(Cluster& cluster, int count) {
  std::vector<Future<Small>> futures;
  for (int done = 0; done < count;) {
    futures.clear();
    for (int i = 0; i < 1'000 && done < count; ++i, ++done)
      futures.push_back(cluster.submit<Small>("bench.echo", Small{}, {.gpus = 0.25}));
    for (auto& future : futures)
      if (!future.get())
        std::exit(1);
  }
}

} // namespace

std::vector<Benchmark> memory_benchmarks() {
  return {{"resident_after_1000000_tasks", [](int) {
             auto cluster = Cluster::embed({.devices = "host:1x1GiB"});
             run_tasks(*cluster, 10'000);
             Row row;
             row.name = "resident_after_1000000_tasks";
             row.unit = "MiB";
             row.floor = resident_mib();
             row.floor_kind = FloorKind::smaller;
             run_tasks(*cluster, 990'000);
             row.value = resident_mib();
             row.ratio = row.least = row.most = row.value / row.floor;
             row.bound = 1.05;
             return row;
           }}};
}

} // namespace gpuactors::bench
