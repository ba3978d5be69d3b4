// What a running task or actor knows of its own lease.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/units.hpp>

#include <map>
#include <string>
#include <vector>

namespace gpuactors {

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
};

} // namespace gpuactors
