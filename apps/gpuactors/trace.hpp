// Converts the broker's events to a trace that browsers show.
#pragma once

#include "json.hpp"

#include <gpuactors/gpuactors.hpp>

#include <cstdint>

namespace gpuactors::cli {

/// Makes a document in Chrome's trace event format, which Perfetto and chrome://tracing open. Each node is a process
/// and each of its devices a track, with a slice for each lease from its grant to its end; leases that share a device
/// at the same time are on tracks below each other. All other events are instants on a track of the broker. Pure.
/// @param state with its events; leases whose grant the broker has forgotten begin with the first event.
/// @param now_unix_ns where leases that are still held end, in nanoseconds since 1970.
[[nodiscard]] Json trace_of(const v1::ClusterState& state, std::int64_t now_unix_ns);

} // namespace gpuactors::cli
