// A request for resources, and its rules (exact shares, no 1.5 devices).
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/ledger/label.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace gpuactors {

/// How the place of a request is chosen among those where it fits.
enum class Strategy : std::uint8_t {
  /// Fill devices already in use first, to keep whole devices free.
  pack,
  /// Take the node, then the device, with the most free.
  spread,
};

/// A request for a part of one node. Omitted fields mean zero, or any.
struct ResourceRequest {
  /// Shown in reasons and events; need not be unique.
  std::string name;
  /// Devices: a fraction below 1 of one device, or a whole number of devices of one node, each exclusive.
  Share gpus;
  /// Bytes on each device. Without `gpus`, the request takes the smallest share of one device that covers them.
  std::uint64_t memory_bytes = 0;
  Share cpus;
  /// Only devices of this type; empty means any.
  std::string accelerator_type;
  /// Custom resources of the node, for instance "neuron_cores".
  std::map<std::string, Share> resources;
  /// Only this node; empty means any.
  std::string node;
  /// `node` is a preference: that node if the request fits there now, otherwise any, even if there is no such node.
  bool node_is_soft = false;
  /// Conditions on the labels of the node.
  LabelConditions labels;
  /// Only nodes that have this type of tasks or actors (`Ledger::type`); none means any. Bundles have none.
  TypeId type;
  /// Requests of higher priority are served first; at most `limits::priority`, and at least as much below zero.
  int priority = 0;
  Strategy strategy = Strategy::pack;
  /// How long the request may stay pending before it is rejected with `no_capacity`.
  std::optional<Duration> queue_timeout;
  /// Stay pending, instead of becoming `infeasible`, if no registered node could ever satisfy the request.
  bool wait_for_nodes = false;
  /// Whether the request may queue; if not, it is rejected with `no_capacity` if it does not fit now.
  bool queue = true;
  /// The placement group from whose bundles the request draws; none means the nodes themselves.
  GroupId group;
  /// Which bundle of `group`; -1 means any.
  int bundle = 0;
  /// The lease of the task that submits this request and may wait for it. That lease can lend its resources.
  LeaseId parent;
  /// The owner in whose quota the request needs room; empty means none.
  std::string owner;

  friend bool operator==(const ResourceRequest&, const ResourceRequest&) = default;
};

/// Checks the rules that need no knowledge of the nodes. Pure; any thread.
/// @returns `invalid_argument` with the broken rule and what is allowed.
Result<void> validate(const ResourceRequest& request);

} // namespace gpuactors
