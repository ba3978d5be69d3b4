// Finds out what a node can offer, in a child process of the workers' program, so that the agent itself never touches a
// device or loads a plugin. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <atomic>
#include <string>
#include <vector>

namespace gpuactors::detail {

/// Runs `program` once to describe its devices and types. Blocks for at most `limits::worker_start`.
/// @param plugins paths; no search path applies.
/// @param given_up ends the wait when it becomes true; null: nothing does.
/// @returns the devices and types; otherwise the error that the process reported, or how it ended, naming the plugin
///          that ended it.
[[nodiscard]] Result<v1::RegisterNode> describe_program(const std::string& program, const std::string& node,
                                                        const std::string& spec,
                                                        const std::vector<std::string>& plugins,
                                                        const std::atomic<bool>* given_up = nullptr);

} // namespace gpuactors::detail
