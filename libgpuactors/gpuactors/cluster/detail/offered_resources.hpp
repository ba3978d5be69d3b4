// What a node offers besides its devices, from what a user wrote. Internal to the cluster layer.
#pragma once

#include <gpuactors/agent/node_agent.hpp>
#include <gpuactors/base/result.hpp>

#include <map>
#include <string>

namespace gpuactors::detail {

/// What a user says about a node; the fields are those of `NodeDaemon` and `EmbeddedNode`.
struct OfferedResources {
  const std::string& name;
  const std::map<std::string, std::string>& labels;
  /// Below 0: the hardware threads of this machine.
  double cpus;
  const std::map<std::string, double>& resources;
  const std::string& accelerator_root;
};

/// Checks the amounts and adds the accelerators other than GPUs that this machine has.
/// @returns `invalid_argument` for an amount that is none, naming the node, or a part of an accelerator.
[[nodiscard]] Result<NodeOptions> node_options(const OfferedResources& offered);

} // namespace gpuactors::detail
