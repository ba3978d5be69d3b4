// What the cluster counted of calls and tasks, as metrics.
#pragma once

#include "metrics_text.hpp"

namespace gpuactors::cli {

/// Returns how long all calls together took.
[[nodiscard]] double seconds_of(const v1::CallStats& stats);

/// Writes how the calls of each method of named actors went, and the tasks of each node: how many, how long, how many
/// failed and how many came too late.
void write_calls(MetricsWriter& out, const v1::ClusterState& state);

} // namespace gpuactors::cli
