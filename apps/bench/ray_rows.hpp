// The rows of Ray's microbenchmark (ray_perf.py), done with this library: the same work, counted in the same way.
#pragma once

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
  /// Actors of the rows `many_actors`.
  int actors = 20;
};

/// One row in one mode: operations (or gigabytes) a second, the mean over the rounds as Ray takes it.
struct RayResult {
  std::string name;
  std::string mode;
  double mean = 0;
  double deviation = 0;
};

/// Runs them and says on standard error which is running. Ends the program when something fails.
[[nodiscard]] std::vector<RayResult> run_ray_rows(const RayRun& run);

/// Names of all rows, in order.
[[nodiscard]] std::vector<std::string> ray_row_names();

void print_ray_json(const std::vector<RayResult>& results, std::FILE* file);

} // namespace gpuactors::bench
