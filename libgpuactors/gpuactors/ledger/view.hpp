// Copies of the ledger's state, for display and checks.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/ledger/lease.hpp>
#include <gpuactors/ledger/node.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

enum class DeviceState : std::uint8_t {
  ok,
  /// Quarantined: nothing is placed on the device.
  failed,
};

enum class NodeState : std::uint8_t {
  ok,
  /// The node keeps its leases and gets no new ones.
  draining,
};

[[nodiscard]] std::string_view to_string(DeviceState state) noexcept;
[[nodiscard]] std::string_view to_string(NodeState state) noexcept;

/// The current state of a device.
struct DeviceView {
  int index = 0;
  DeviceSpec spec;
  DeviceState state = DeviceState::ok;
  /// Zero if the device has failed.
  Share free_share;
  std::uint64_t free_memory_bytes = 0;
  /// Leases that use the device, oldest first, including leases lent by others or drawn from bundles.
  std::vector<LeaseId> leases;
  /// Placement groups that have a bundle on the device, oldest first.
  std::vector<GroupId> groups;
};

/// The current state of a node.
struct NodeView {
  std::string name;
  NodeState state = NodeState::ok;
  Share cpus;
  Share free_cpus;
  std::map<std::string, std::string> labels;
  std::map<std::string, Share> resources;
  std::map<std::string, Share> free_resources;
  std::vector<DeviceView> devices;
};

/// A waiting request or group.
struct PendingView {
  /// None for a group.
  RequestId request;
  /// The waiting group itself; none for a request.
  GroupId group;
  std::string name;
  int priority = 0;
  TimePoint since;
  /// Why the request currently waits.
  std::string reason;
};

/// The place held back for the oldest blocked request or group of one priority.
struct ReservationView {
  int priority = 0;
  /// None if the reservation is for a group.
  RequestId request;
  /// None if the reservation is for a request.
  GroupId group;
  /// The reserved places: one for a request, one for each bundle of a group.
  std::vector<BundleGrant> places;
  TimePoint until;
};

/// The owner whose quota applies to each client without a quota of its own.
inline constexpr std::string_view default_owner = "*";

/// What an owner holds, and may hold.
struct QuotaView {
  std::string owner;
  /// Share of devices, summed over the owner's leases and groups.
  Share used;
  /// None: the owner is not bounded.
  std::optional<Share> limit;
  /// The limit is that of `default_owner`.
  bool by_default = false;
};

/// Checks the owner and the limit of a quota. Pure; any thread.
/// @returns `invalid_argument` with the rule: a name without control characters, a limit that is not negative.
Result<void> validate_quota(std::string_view owner, std::optional<Share> limit);

/// The answer of one node to a request.
struct NodeVerdict {
  enum class Kind : std::uint8_t {
    /// The request could go there now.
    fits,
    /// The request would fit if nothing there were reserved for one that has waited longer.
    held_back,
    /// The request would fit if other leases were released.
    busy,
    /// The request would fit, but the node is drained: it takes no new leases.
    draining,
    /// The request could not go there even if all of the node were free.
    never,
  };

  std::string node;
  /// The bundle of this answer; -1 for the node itself.
  int bundle = -1;
  Kind kind = Kind::fits;
  /// For example "asked 3 devices free: has 2"; empty if it fits.
  std::string reason;

  friend bool operator==(const NodeVerdict&, const NodeVerdict&) = default;
};

/// Returns "fits", "held back", "busy", "draining" or "never". Any thread.
[[nodiscard]] std::string_view to_string(NodeVerdict::Kind kind) noexcept;

} // namespace gpuactors
