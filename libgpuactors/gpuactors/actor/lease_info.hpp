// What a running task or actor knows of its own lease.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/units.hpp>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

class Device;

/// One device of a lease.
struct LeasedDevice {
  /// Index on the node: what users see as the device id.
  int index = 0;
  Share share;
  std::uint64_t memory_bytes = 0;
};

/// A lease as its holder sees it. A plain value.
struct LeaseInfo {
  LeaseId id;
  std::uint64_t epoch = 0;
  /// Name of the node.
  std::string node;
  /// In the order of their indices; empty for work that asked for no device.
  std::vector<LeasedDevice> devices;
  Share cpus;
  std::map<std::string, Share> resources;
  /// The lease that this one was carved out of, if any.
  LeaseId parent;
  /// Which units of the node's accelerators it has, such as {"neuron_cores", {1}}; `gpus` are in `devices`.
  std::map<std::string, std::vector<int>> accelerators;
  /// The variables by which a process of its own is shown exactly its units: {"NEURON_RT_VISIBLE_CORES", "1"}. Only
  /// kinds of which it has some; CUDA devices by their UUIDs.
  std::map<std::string, std::string> environment;

  /// The units that it has of a kind ("neuron_cores"), ascending; for "gpus", the indices of its devices. Empty when it
  /// has none.
  [[nodiscard]] std::vector<int> accelerator_ids(std::string_view kind) const;
};

/// The device that its node knows as `index`, which need not be its place among them; null if there is none.
[[nodiscard]] std::shared_ptr<Device> find_device(const std::vector<std::shared_ptr<Device>>& devices, int index);

/// What `LeaseInfo::environment` holds; `devices` are the node's.
[[nodiscard]] std::map<std::string, std::string> environment_of(const LeaseInfo& lease,
                                                                const std::vector<std::shared_ptr<Device>>& devices);

} // namespace gpuactors
