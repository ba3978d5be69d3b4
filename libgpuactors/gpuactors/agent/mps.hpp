// What holds a process to its lease where processes use a GPU at the same time by CUDA MPS.
#pragma once

#include <gpuactors/device/mps.hpp>
#include <gpuactors/v1/control.pb.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// The variables that hold a process of its own to a lease under MPS: set, or removed where there is no value, so that
/// what the node was started with does not reach it. A part of a device is a percentage of its SMs, rounded down, at
/// least 1, and a limit of memory, with `limits::mps_headroom_bytes` more than the lease has; a whole device is without
/// limits. The number of hardware queues is always removed: under MPS all processes share them. Pure.
/// @param devices the node's devices of the lease, in the order in which the process sees them.
[[nodiscard]] std::map<std::string, std::optional<std::string>> mps_environment(const v1::Lease& lease,
                                                                                const std::vector<v1::Device>& devices);

} // namespace gpuactors
