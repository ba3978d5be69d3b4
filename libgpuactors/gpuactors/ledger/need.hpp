// What a request needs of devices, worked out for a device of a given size; and which requests are interchangeable.
#pragma once

#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/lease.hpp>
#include <gpuactors/ledger/request.hpp>

namespace gpuactors::ledger_detail {

/// What one device has to give.
struct Need {
  Share share;
  std::uint64_t bytes = 0;
};

/// Whether the request is for devices to itself.
[[nodiscard]] inline bool wants_whole_devices(const ResourceRequest& request) {
  return request.gpus >= Share::whole(1);
}

/// Whether the request is for any part of a device.
[[nodiscard]] inline bool wants_devices(const ResourceRequest& request) {
  return request.gpus > Share{} || request.memory_bytes > 0;
}

/// Whether the request is for one node and no other.
[[nodiscard]] inline bool needs_node(const ResourceRequest& request) {
  return !request.node.empty() && !request.node_is_soft;
}

/// How many devices the request is for.
[[nodiscard]] inline std::size_t device_count(const ResourceRequest& request) {
  if (wants_whole_devices(request))
    return static_cast<std::size_t>(request.gpus.units() / Share::one);
  return wants_devices(request) ? 1 : 0;
}

/// What the request needs of a device with `device_bytes` of memory.
///
/// gpus alone: memory in proportion. Memory alone: exactly that, and the least share that covers it (above one whole
/// when the device is too small). Both: both as asked; of whole devices, each gives all of its share and the memory
/// asked.
[[nodiscard]] Need need_on(const ResourceRequest& request, std::uint64_t device_bytes) noexcept;

/// "0.5 of a device of type H100", "2 devices", "6442450944 bytes (6 GiB) of a device".
[[nodiscard]] std::string describe_devices(const ResourceRequest& request);

/// "6442450944 bytes (6 GiB)".
[[nodiscard]] std::string describe_bytes(std::uint64_t bytes);

/// What decides where and when a request can be placed. Two waiting requests of one shape are interchangeable but for
/// their age: when the older does not fit, neither does the younger.
struct ShapeKey {
  /// For a group, only the priority counts.
  ResourceRequest request;
  /// The bundles of a group that are to be placed; empty for a request.
  std::vector<ResourceRequest> bundles;
  GroupStrategy strategy = GroupStrategy::pack;
  /// The group that keeps its other bundles meanwhile; none when it has no others.
  GroupId keeper{};

  [[nodiscard]] bool is_group() const {
    return !bundles.empty();
  }
};

/// Orders shapes by what counts in them.
struct ShapeLess {
  bool operator()(const ShapeKey& a, const ShapeKey& b) const;
};

} // namespace gpuactors::ledger_detail
