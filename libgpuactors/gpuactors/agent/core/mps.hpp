// The environment that limits a process to its lease when processes share a GPU through CUDA MPS.
#pragma once

#include <gpuactors/device/mps.hpp>
#include <gpuactors/v1/control.pb.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// The number of hardware queues that CUDA's driver gives a process.
inline constexpr const char* queues_variable = "CUDA_DEVICE_MAX_CONNECTIONS";

/// The variables that limit an isolated process to its lease under MPS. A variable without a value is removed, so that
/// the process does not inherit the node's. A share of a device becomes a percentage of its SMs, rounded down, at least
/// 1, and a memory limit of `limits::mps_headroom_bytes` above the lease's memory; a whole device has no limits. The
/// variable for the number of hardware queues is always removed: under MPS all processes share them. Pure.
/// @param devices the node's devices that the lease is on, in the order in which the process sees them.
[[nodiscard]] std::map<std::string, std::optional<std::string>> mps_environment(const v1::Lease& lease,
                                                                                const std::vector<v1::Device>& devices);

} // namespace gpuactors
