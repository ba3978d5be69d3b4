// How long the calls of actors and tasks took, out of what a cluster counted. All is pure; any thread.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

/// Returns how many calls were counted.
[[nodiscard]] std::uint64_t how_many(const CallTimes& times);

/// Returns their mean in seconds; nothing if there were none.
[[nodiscard]] std::optional<double> mean_of(const CallTimes& times);

/// Returns the bound up to which so many of a hundred times were; nothing if they were above all bounds, or if there is
/// none.
[[nodiscard]] std::optional<double> bound_of(const CallTimes& times, std::uint64_t percent);

/// Returns a time with its unit and three digits: "12.3 ms".
[[nodiscard]] std::string seconds_in_words(double seconds);

/// Returns the mean of times with its unit; nothing if there are none.
[[nodiscard]] std::string mean_in_words(const CallTimes& times);

/// Returns "<= 12.3 ms", or "> ..." above all bounds; nothing if there are no times.
[[nodiscard]] std::string bound_in_words(const CallTimes& times, std::uint64_t percent);

/// A method of an actor, or a task on a node. The state that it is of must live as long.
struct CallRow {
  /// Null for a task.
  const v1::ActorInfo* actor;
  std::string node;
  const v1::CallStats* stats;
};

/// Returns the methods of actors that were called, and the tasks that nodes ran, in the order of the state.
[[nodiscard]] std::vector<CallRow> call_rows(const v1::ClusterState& state);

} // namespace gpuactors::cli
