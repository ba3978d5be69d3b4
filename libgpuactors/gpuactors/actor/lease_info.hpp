// Describes a lease to the task or actor that runs under it.
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

namespace v1 {
class Lease;
} // namespace v1

/// One device of a lease.
struct LeasedDevice {
  /// Index on the node, which users see as the device id.
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
  /// In the order of their indices; empty for work without a device.
  std::vector<LeasedDevice> devices;
  Share cpus;
  std::map<std::string, Share> resources;
  /// Host memory of the node; 0 if none was asked for.
  std::uint64_t host_memory_bytes = 0;
  /// The lease that this one was carved out of, if any.
  LeaseId parent;
  /// The name of the client in whose quota the lease counts; empty: none.
  std::string quota_owner;
  /// The lease's units of the node's accelerators, such as {"neuron_cores", {1}}; `gpus` are in `devices`.
  std::map<std::string, std::vector<int>> accelerators;
  /// The environment variables that show exactly these units to a separate process: {"NEURON_RT_VISIBLE_CORES", "1"}.
  /// Only for kinds that the lease has; CUDA devices by their UUIDs.
  std::map<std::string, std::string> environment;

  /// Returns the lease's units of a kind ("neuron_cores"), ascending; for "gpus", the indices of its devices. Empty if
  /// it has none.
  [[nodiscard]] std::vector<int> accelerator_ids(std::string_view kind) const;
};

/// Converts a lease as the broker describes it. `environment` stays empty: see `environment_of`.
[[nodiscard]] LeaseInfo to_lease_info(const v1::Lease& lease);

/// Returns the device with this index on its node, which may differ from its position in `devices`; null if none.
[[nodiscard]] std::shared_ptr<Device> find_device(const std::vector<std::shared_ptr<Device>>& devices, int index);

/// Returns the value of `LeaseInfo::environment`; `devices` are the node's.
[[nodiscard]] std::map<std::string, std::string> environment_of(const LeaseInfo& lease,
                                                                const std::vector<std::shared_ptr<Device>>& devices);

} // namespace gpuactors
