// Chooses the place of a request among all nodes.
//
// Assumes that a request may go wherever it fits: nodes differ only in properties that a request can name.
//
// A preferred node comes first if the request fits there. Packed fraction: among devices in use, the one with the least
// share left, then the least memory left, then by node name and index. If none fits, an idle device: least left as
// before, then the node with the fewest idle devices of that kind, then by name and index. Packed whole devices: the
// node with the fewest, but enough, idle devices of one kind (type and size), then the kind with less memory, then by
// name; if no node has enough of one kind, the node with the fewest idle devices of all matching kinds; within the
// node, the devices closest to each other. Packed without devices: nodes without devices first, then the least free
// cpus, then by name. Spread: the node with the most free share over all its devices, then the most free cpus, then by
// name; within it, the device with the most free.
#pragma once

#include <gpuactors/ledger/node_table.hpp>

#include <set>

namespace gpuactors::ledger_detail {

/// Finds the best place on a node that takes leases and is not in `excluded`. Returns nothing if the request fits
/// nowhere.
[[nodiscard]] std::optional<Fit> place(NodeTable& table, const ResourceRequest& request, const Lens& lens,
                                       const std::set<const Node*>& excluded = {});

/// Returns whether the request fits on some node that `lens` covers. The lens may show free or total amounts. Visits
/// all nodes.
[[nodiscard]] bool fits_somewhere(const NodeTable& table, const ResourceRequest& request, const Lens& lens);

/// Returns an upper bound on what one request can get on nodes that take leases: of the devices of a type ("" is any),
/// or of the cpus. A request above it does not fit; one within it may not fit either.
[[nodiscard]] std::int64_t most_free(const NodeTable& table, const std::string& accelerator_type, Measure measure,
                                     const Lens& lens);

} // namespace gpuactors::ledger_detail
