// Several trainings beside each other: as many as the cluster has room for, the others wait for their turn.
#pragma once

#include "session.hpp"

#include <functional>
#include <string>
#include <vector>

namespace train {

/// How far several trainings are. A plain value.
struct JobCounts {
  std::size_t running = 0;
  std::size_t done = 0;
  std::size_t all = 0;
};

struct JobWatcher {
  /// Told whenever a training begins or ends, one call at a time, on some thread.
  std::function<void(const JobCounts&)> changed = [](const JobCounts&) {};
  /// Any thread. Once true, what runs is stopped and nothing new begins.
  std::function<bool()> stop = [] { return false; };
};

/// Trains each plan for `epochs` on an actor of its own with these resources. Returns when all have ended, the results
/// in the order of the plans; those that never began are `cancelled`.
[[nodiscard]] std::vector<gpuactors::Result<Outcome>> run_jobs(gpuactors::Cluster& cluster,
                                                               const std::vector<Plan>& plans,
                                                               const gpuactors::Options& options, std::uint64_t epochs,
                                                               const JobWatcher& watcher);

} // namespace train
