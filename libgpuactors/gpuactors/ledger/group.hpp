// Placement groups: bundles of resources that are reserved all together or not at all.
#pragma once

#include <gpuactors/ledger/request.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// How the bundles of a group are distributed over nodes.
enum class GroupStrategy : std::uint8_t {
  /// On as few nodes as possible.
  pack,
  /// On as many nodes as possible.
  spread,
  /// All on one node, or not at all.
  strict_pack,
  /// Each on a separate node, or not at all.
  strict_spread,
};

/// A request for a placement group.
struct GroupRequest {
  std::string name;
  GroupStrategy strategy = GroupStrategy::pack;
  /// Of each bundle, only gpus, memory, cpus, accelerator type, resources, node and labels count.
  std::vector<ResourceRequest> bundles;
  int priority = 0;
  /// `queue_timeout`, `wait_for_nodes` and `queue` apply to the first placing only: for a lost bundle, a group always
  /// waits.
  std::optional<Duration> queue_timeout;
  bool wait_for_nodes = false;
  bool queue = true;
  /// Lost bundles are not placed again: a bundle ends with the last lease in it, or with its node or device, and the
  /// group ends with its last bundle.
  bool shrinks = false;
  /// The owner whose quota counts the bundles; empty means none. The bundles' own `owner` does not count.
  std::string owner;

  friend bool operator==(const GroupRequest&, const GroupRequest&) = default;
};

/// Checks the group and each of its bundles. Pure; any thread.
/// @returns `invalid_argument` with the bundle and the rule.
Result<void> validate(const GroupRequest& group);

} // namespace gpuactors
