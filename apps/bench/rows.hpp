// The groups of rows that gpuactors-bench knows.
#pragma once

#include "harness.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpuactors::bench {

/// A named row, run on demand. Bounds are those that the project holds itself to on two cores.
struct Benchmark {
  std::string name;
  std::function<Row(int repeat)> run;
};

/// Calls and tasks against requests between plain CAF actors in the same process.
[[nodiscard]] std::vector<Benchmark> call_benchmarks();

/// Calls, tasks and deaths in a cluster of processes, against plain CAF between two processes.
[[nodiscard]] std::vector<Benchmark> remote_benchmarks();

/// What idle actors of such a cluster cost, and calls beside a large transfer.
[[nodiscard]] std::vector<Benchmark> remote_load_benchmarks();

/// What the process does that `remote_load_benchmarks` starts: it fetches 4 GiB over TCP, again and again.
int fetch_for_ever(const std::string& address, std::uint64_t id, const std::string& certificates);

/// Work on devices against the bare library.
[[nodiscard]] std::vector<Benchmark> device_benchmarks();

/// The scheduler's decisions, by themselves, against the rates that the project promises.
[[nodiscard]] std::vector<Benchmark> ledger_benchmarks();

/// Resident memory after many tasks against after few.
[[nodiscard]] std::vector<Benchmark> memory_benchmarks();

/// Tensors from one process to another: on one machine against memcpy, over TCP against one raw stream.
[[nodiscard]] std::vector<Benchmark> transport_benchmarks();

/// Training through an actor, against a plain loop over OpenBLAS.
[[nodiscard]] std::vector<Benchmark> training_benchmarks();

} // namespace gpuactors::bench
