// The needs of a request on a device of a given size, and the shape of a request, by which requests are
// interchangeable.
#pragma once

#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/lease.hpp>
#include <gpuactors/ledger/request.hpp>

#include <cstdint>

namespace gpuactors::ledger_detail {

/// The amounts that one device has to provide.
struct Need {
  Share share;
  std::uint64_t bytes = 0;
};

/// Returns whether the request is for whole, exclusive devices.
[[nodiscard]] inline bool wants_whole_devices(const ResourceRequest& request) {
  return request.gpus >= Share::whole(1);
}

/// Returns whether the request is for any part of a device.
[[nodiscard]] inline bool wants_devices(const ResourceRequest& request) {
  return request.gpus > Share{} || request.memory_bytes > 0;
}

/// Returns whether the request is for so much of one device as has the memory.
[[nodiscard]] inline bool wants_memory_alone(const ResourceRequest& request) {
  return request.gpus == Share{} && request.memory_bytes > 0;
}

/// Returns whether a device of this type is one of those that are asked for; any is if `asked` is empty.
[[nodiscard]] inline bool is_of_type(const std::string& accelerator_type, const std::string& asked) {
  return asked.empty() || accelerator_type == asked;
}

/// Returns whether the request is for one node and no other.
[[nodiscard]] inline bool needs_node(const ResourceRequest& request) {
  return !request.node.empty() && !request.node_is_soft;
}

/// Returns how many devices the request is for.
[[nodiscard]] inline std::size_t device_count(const ResourceRequest& request) {
  if (wants_whole_devices(request))
    return static_cast<std::size_t>(request.gpus.units() / Share::one);
  return wants_devices(request) ? 1 : 0;
}

/// Returns what the request needs of a device with `device_bytes` of memory.
///
/// With `gpus` alone, memory is proportional to the share. With memory alone, the share is the least one that covers it
/// (above one whole if the device is too small). With both, both are as requested. A whole device always provides its
/// whole share, and the requested memory, or all of it if none is requested.
[[nodiscard]] Need need_on(const ResourceRequest& request, std::uint64_t device_bytes) noexcept;

/// Renders "0.5 of a device of type H100", "2 devices" or "6442450944 bytes (6 GiB) of a device".
[[nodiscard]] std::string describe_devices(const ResourceRequest& request);

/// Renders "6442450944 bytes (6 GiB)".
[[nodiscard]] std::string describe_bytes(std::uint64_t bytes);

/// Renders an amount of a custom resource: "2", or "2048 bytes (2 KiB)" of host memory.
[[nodiscard]] std::string describe_amount(std::string_view resource, Share amount);

/// The same with the resource: "2 neuron_cores", "2048 bytes (2 KiB) of host memory".
[[nodiscard]] std::string describe_resource(std::string_view resource, Share amount);

/// A shape: everything that decides where and when a request can be placed. Waiting requests of one shape differ only
/// in their age: if the older one does not fit, neither does the younger one.
struct ShapeKey {
  /// For a group, only priority and owner count. The owner is empty if no quota applies to it, or if what is granted
  /// counts already, as a part of a group.
  ResourceRequest request;
  /// The bundles of a group that wait for a place; empty for a request.
  std::vector<ResourceRequest> bundles;
  GroupStrategy strategy = GroupStrategy::pack;
  /// The group itself, if it keeps other bundles while it waits; else none.
  GroupId keeper{};

  [[nodiscard]] bool is_group() const {
    return !bundles.empty();
  }
};

/// Returns the request without what does not count for its shape, and stays with its entry in the queue: its name, and
/// whether and how long it may wait.
[[nodiscard]] ResourceRequest counting_part(ResourceRequest request);

/// The quantity by which a shape is measured: one number, so that one comparison rules out most shapes that cannot be
/// served.
enum class Measure : std::uint8_t {
  /// Whole devices of one node.
  devices,
  /// Share of one device, in 1/10000.
  share,
  /// Bytes of one device.
  bytes,
  /// Cpus of a node, in 1/10000, for requests without devices.
  cpus,
};

/// Return the least and the most units of its owner's quota that a grant to the shape takes. They differ only if it
/// asks for memory alone: then its share depends on the device.
[[nodiscard]] std::int64_t least_charge(const ShapeKey& key) noexcept;
[[nodiscard]] std::int64_t least_charge(const ResourceRequest& request) noexcept;
[[nodiscard]] std::int64_t most_charge(const ShapeKey& key) noexcept;

/// Orders shapes by the fields that count.
struct ShapeLess {
  bool operator()(const ShapeKey& a, const ShapeKey& b) const;
};

} // namespace gpuactors::ledger_detail
