// From events of GPUs to what an agent is told. Internal to the cluster layer.
#pragma once

#include <gpuactors/device/nvml/watch.hpp>
#include <gpuactors/wire/messages.hpp>

#include <functional>
#include <memory>
#include <string>

namespace gpuactors::detail {

/// Has the agent of a node with CUDA devices told of those that fail, while the result lives. Null when there is
/// nothing to watch.
/// @param notice is told what the operator should know: that nothing is watched, and what the devices have dealt with.
[[nodiscard]] std::unique_ptr<nvml::Watch> watch_devices(const v1::Node& node, caf::strong_actor_ptr agent,
                                                         std::function<void(std::string)> notice);

} // namespace gpuactors::detail
