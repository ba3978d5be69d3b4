// What the cluster counted of calls and tasks, as metrics.
#pragma once

#include "metrics_text.hpp"

namespace gpuactors::cli {

/// Times of calls, counted by `limits::call_seconds`; views counts that must live as long.
struct CallTimes {
  const google::protobuf::RepeatedField<std::uint64_t>& counts;
  /// All of them together.
  double seconds;
};

/// Returns how long calls that ran took.
[[nodiscard]] CallTimes took(const v1::CallStats& stats);

/// Returns how long calls waited for their turn.
[[nodiscard]] CallTimes waited(const v1::CallStats& stats);

/// Writes how the calls of each method of named actors went, and the tasks of each node: how many, how long they took
/// and had waited, how many failed and how many came too late.
void write_calls(MetricsWriter& out, const v1::ClusterState& state);

} // namespace gpuactors::cli
