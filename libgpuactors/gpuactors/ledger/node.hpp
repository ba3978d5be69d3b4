// What a node offers.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/base/units.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpuactors {

/// One device of a node. Its index is its place in `NodeSpec::devices`.
struct DeviceSpec {
  std::string accelerator_type;
  /// What can be granted: memory that the driver keeps for itself is not in it.
  std::uint64_t memory_bytes = 0;
  std::string uuid;
  /// The NUMA node that it is attached to; -1 when that is not known.
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
  /// How far each device is from each other, for requests of several: a row and a column for each device, 0 on the
  /// diagonal, symmetric, at most `limits::distance`; lower is closer. Empty when that is not known; then devices of
  /// one NUMA node count as close.
  std::vector<std::vector<int>> distances;

  friend bool operator==(const NodeSpec&, const NodeSpec&) = default;
};

/// Checks names, amounts and limits. Pure; any thread.
/// @returns `invalid_argument`, saying which rule is broken and what is allowed.
Result<void> validate(const NodeSpec& node);

} // namespace gpuactors
