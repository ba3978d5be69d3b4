// What a node has to offer, found out by a process of its workers' program, so that its agent never touches a device or
// loads a plugin. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <string>
#include <vector>

namespace gpuactors::detail {

/// Runs `program` once, to say what devices and types it has. Blocks, at most `limits::worker_start`.
/// @param plugins paths, not looked for anywhere.
/// @returns the devices and the types; the error that the process reports, or how it ended, naming the plugin that
/// ended it.
[[nodiscard]] Result<v1::RegisterNode> describe_program(const std::string& program, const std::string& node,
                                                        const std::string& spec,
                                                        const std::vector<std::string>& plugins);

} // namespace gpuactors::detail
