// A line on the terminal while tasks take their time.
#pragma once

#include <gpuactors/cluster/cluster.hpp>

#include <vector>

namespace gpuactors::cli {

/// Waits until all of `futures` are ready, and says on standard error, once a second, how far they are and what the
/// oldest one that waits is waiting for. Silent, and back at once, where standard error is no terminal.
void show_progress(Cluster& cluster, const std::vector<Future<Payload>>& futures);

} // namespace gpuactors::cli
