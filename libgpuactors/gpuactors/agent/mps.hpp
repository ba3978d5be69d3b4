// CUDA MPS, by which processes use a GPU at the same time: whether it runs, and what holds a process of it to its
// lease.
#pragma once

#include <gpuactors/v1/control.pb.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// Where the control daemon of MPS keeps its files: CUDA_MPS_PIPE_DIRECTORY of this process, or MPS's own default.
[[nodiscard]] std::filesystem::path mps_folder();

/// Whether a control daemon keeps its files there. One that has ended may have left them: then nobody heeds the
/// variables below. It need not be a process that this one can see.
[[nodiscard]] bool mps_runs(const std::filesystem::path& folder);

/// The variables that hold a process of its own to a lease under MPS: set, or removed where there is no value, so that
/// what the node was started with does not reach it. A part of a device is a percentage of its SMs, rounded down, at
/// least 1, and a limit of memory, with `limits::mps_headroom_bytes` more than the lease has; a whole device is without
/// limits. Pure.
/// @param devices the node's devices of the lease, in the order in which the process sees them.
[[nodiscard]] std::map<std::string, std::optional<std::string>> mps_environment(const v1::Lease& lease,
                                                                                const std::vector<v1::Device>& devices);

} // namespace gpuactors
