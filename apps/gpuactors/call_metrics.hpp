// What the cluster counted of calls and tasks, as metrics.
#pragma once

#include "metrics_text.hpp"

namespace gpuactors::cli {

/// Writes how the calls of each method of named actors went, and the tasks of each node: how many, how long they took
/// and had waited, how many failed and how many came too late.
void write_calls(MetricsWriter& out, const v1::ClusterState& state);

} // namespace gpuactors::cli
