// The rows of Ray's microbenchmark (ray_perf.py), done with this library: the same work, counted in the same way.
#pragma once

#include "harness.hpp"

#include <string>
#include <vector>

namespace gpuactors::bench {

struct RayRun {
  /// Only rows whose name contains it.
  std::string filter;
  /// "plain" or "tls": a cluster of processes on loopback; "embedded": all in this process.
  std::vector<std::string> modes{"plain", "tls", "embedded"};
  /// Seconds of one round, and how many rounds there are after a first one that does not count.
  double seconds = 2;
  int rounds = 4;
  /// Actors of the rows `many_actors`, and tasks of `many_tasks`.
  int actors = 20;
  int tasks = 10'000;
};

/// Runs them and says on standard error which is running. Operations (or gigabytes) a second: the mean over the rounds,
/// as Ray takes it; the ratio to the floor, where there is one, is the median of those of the rounds. Ends the program
/// when something fails.
[[nodiscard]] std::vector<Row> run_ray_rows(const RayRun& run);

/// Names of all rows, in order.
[[nodiscard]] std::vector<std::string> ray_row_names();

} // namespace gpuactors::bench
