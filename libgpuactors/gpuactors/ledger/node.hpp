// The resources of a node.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/base/units.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// One device of a node. Its index is its position in `NodeSpec::devices`.
struct DeviceSpec {
  std::string accelerator_type;
  /// Grantable memory, without the part that the driver needs.
  std::uint64_t memory_bytes = 0;
  std::string uuid;
  /// The NUMA node of the device; -1 if unknown.
  int numa_node = -1;

  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// A node as it registers.
struct NodeSpec {
  std::string name;
  Share cpus;
  std::map<std::string, std::string> labels;
  std::map<std::string, Share> resources;
  std::vector<DeviceSpec> devices;
  /// The distances between devices, for requests of several: a row and a column for each device, 0 on the diagonal,
  /// symmetric, at most `limits::distance`; lower is closer. Empty if unknown; then devices of one NUMA node count as
  /// close.
  std::vector<std::vector<int>> distances;
  /// The types of tasks and actors that can run there, at most `limits::types_per_node`. Nothing means unknown: the
  /// node counts as having every type.
  std::optional<std::vector<std::string>> types{};

  friend bool operator==(const NodeSpec&, const NodeSpec&) = default;
};

/// Checks names, amounts and limits. Pure; any thread.
/// @returns `invalid_argument` with the broken rule and what is allowed.
Result<void> validate(const NodeSpec& node);

/// Checks the types of the node `node`. Pure; any thread.
/// @returns `invalid_argument` with the broken rule and what is allowed.
Result<void> check_types(std::string_view node, const std::optional<std::vector<std::string>>& types);

} // namespace gpuactors
