// Grants: a lease for one holder, or a bundle of a placement group, reserved for future holders.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/units.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpuactors {

/// A part of one device.
struct DeviceGrant {
  /// The device's index in its node.
  int index = 0;
  Share share;
  std::uint64_t memory_bytes = 0;

  friend bool operator==(const DeviceGrant&, const DeviceGrant&) = default;
};

/// A part of one node, held by one task or actor.
///
/// waiting -> held -> released (by its holder) or lost (its node, device or group went away).
struct Lease {
  /// Never used again by the same ledger.
  LeaseId id;
  /// Grows with every grant. Messages about a lease carry it, so a stale holder is refused.
  std::uint64_t epoch = 0;
  RequestId request;
  std::string name;
  std::string node;
  /// Ascending by index.
  std::vector<DeviceGrant> devices;
  Share cpus;
  std::map<std::string, Share> resources;
  /// The lease that lent these resources; none if they came from the node or a bundle.
  LeaseId parent;
  /// The placement group and bundle that they came from; none if they came from the node.
  GroupId group;
  int bundle = 0;
  /// As in the request. The lease counts in this owner's quota unless it is lent or in a group, which count themselves.
  std::string owner;
  /// The lease of the task or actor that requested this one, and may wait for it; it may have ended since. What this
  /// lease requests may be lent from that one, too.
  LeaseId asked_by;

  friend bool operator==(const Lease&, const Lease&) = default;
};

/// The place of one bundle of a placement group.
struct BundleGrant {
  int bundle = 0;
  std::string node;
  /// Ascending by index.
  std::vector<DeviceGrant> devices;
  Share cpus;
  std::map<std::string, Share> resources;

  friend bool operator==(const BundleGrant&, const BundleGrant&) = default;
};

} // namespace gpuactors
