// The description of a node, from what a user wrote. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace gpuactors::detail {

/// What a user says about a node; the fields are those of `NodeDaemon` and `EmbeddedNode`.
struct OfferedResources {
  const std::string& name;
  const std::map<std::string, std::string>& labels;
  /// Below 0: the hardware threads of this machine.
  double cpus;
  const std::map<std::string, double>& resources;
  /// Nothing: what this machine has, or the control group that bounds this process.
  std::optional<std::uint64_t> host_memory_bytes;
  const std::string& accelerator_root;
};

/// Checks the amounts and adds the accelerators other than GPUs that this machine has.
/// @returns the description of a node without devices yet; `invalid_argument` for an amount that is none, naming the
///          node, or a part of an accelerator.
[[nodiscard]] Result<v1::Node> describe_node(const OfferedResources& offered);

/// The same with the devices that the node's programs see, and whatever else `add_devices` says of them there.
[[nodiscard]] Result<v1::Node> describe_node(const OfferedResources& offered, v1::Node seen);

} // namespace gpuactors::detail
