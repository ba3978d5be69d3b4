// Conversions between descriptions of devices and their messages. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/backend.hpp>
#include <gpuactors/v1/control.pb.h>

#include <memory>
#include <vector>

namespace gpuactors::detail {

/// The description that other processes get: without the ordinal, which counts for one process only.
[[nodiscard]] v1::Device to_wire(const DeviceInfo& info);

/// Converts the description of a device by another process; the device's index stands in for its ordinal.
/// @returns `invalid_argument` for a kind that this version does not know.
[[nodiscard]] Result<DeviceInfo> from_wire(const v1::Device& device);

/// Adds devices, and the distances between them, to the description of a node that has none.
void add_devices(const std::vector<std::shared_ptr<Device>>& devices, v1::Node& node);

} // namespace gpuactors::detail
