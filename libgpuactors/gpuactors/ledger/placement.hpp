// Where a request goes among all nodes.
//
// Assumes that whatever fits on some node may go there: nodes differ in nothing that a request does not name.
//
// A node that is a wish comes first if it fits there. Packed fraction: among devices in use, the one with the least
// share left, then the least memory left, then by node name and index. When none fits, an idle device: least left as
// before, then the node with the fewest idle devices of that kind, then by name and index. Packed whole devices: the
// node with the fewest idle devices of one kind (type and size) that are enough, then the kind with less memory, then
// by name; when no node has enough of one kind, the node with the fewest idle devices of any matching kinds; in it,
// those closest to each other. Packed without devices: nodes without devices first, then the least free cpus, then by
// name. Spread: the node with the most free share over all its devices, then the most free cpus, then by name; in it
// the device with the most free.
#pragma once

#include <gpuactors/ledger/cluster.hpp>
#include <gpuactors/ledger/wake_index.hpp>

#include <set>

namespace gpuactors::ledger_detail {

/// A pool and what to take of it.
struct Placement {
  Pool* pool = nullptr;
  std::vector<DeviceGrant> devices;
};

/// Finds the best place on a node that takes leases and is not in `excluded`. Nothing when it fits nowhere.
[[nodiscard]] std::optional<Placement> place(Cluster& cluster, const ResourceRequest& request, const Lens& lens,
                                             const std::set<const Node*>& excluded = {});

/// Whether it fits on some node that takes leases, seen through `lens`, whatever the amount it looks at. Looks at all
/// nodes.
[[nodiscard]] bool fits_somewhere(const Cluster& cluster, const ResourceRequest& request, const Lens& lens);

/// Bounds for what one request can get of the devices of a type ("" is any), or of the cpus, on nodes that take leases.
[[nodiscard]] Limits most_free(const Cluster& cluster, const std::string& accelerator_type, const Lens& lens);

} // namespace gpuactors::ledger_detail
