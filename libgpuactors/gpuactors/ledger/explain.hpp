// Explains why a request does not fit: the constraint that refused it and what the best node has.
#pragma once

#include <gpuactors/ledger/node_table.hpp>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::ledger_detail {

/// Clusters of up to this many nodes are searched completely for the best node.
inline constexpr std::size_t nodes_to_explain = 64;

/// Returns for example "no node has 3 devices of type V100: node n0 has 2"; empty if the request fits.
///
/// Checks the constraints of each node in turn (name, type of tasks or actors, draining, labels, type of accelerator,
/// devices, memory, cpus, resources, being away), without draining if the lens covers drained nodes. The text names the
/// node that passes most of them, then the one that has most of what it lacks, then the first by name; and then it says
/// how many nodes do not have the type. Visits all nodes, with one exception: on clusters of more than
/// `nodes_to_explain` nodes, if the lens shows free amounts, the request has no labels and all nodes have its type, it
/// visits only the nodes with the most devices, share, memory or cpus free, so that joining a long queue does not cost
/// a walk over all nodes.
[[nodiscard]] std::string explain(const NodeTable& table, const ResourceRequest& request, const Lens& lens);

/// Like `explain`, for one pool such as a bundle; `what` names it ("bundle 0"), `types` the request's type.
[[nodiscard]] std::string explain_in(const Pool& pool, const ResourceRequest& request, const Lens& lens,
                                     const TypeTable& types, std::string_view what);

/// Explains why the request does not fit in one pool, without the pool's name: "asked 3 devices free: has 2". Empty if
/// it fits. `new_lease` is false for a pool that was already set aside, which a draining node still serves.
[[nodiscard]] std::string explain_here(const Pool& pool, const ResourceRequest& request, const Lens& lens,
                                       const TypeTable& types, bool new_lease);

/// Explains why a group does not fit: which bundle fits nowhere, or that the bundles do not fit together.
[[nodiscard]] std::string explain_group(const NodeTable& table, const std::vector<ResourceRequest>& bundles,
                                        GroupStrategy strategy, const Lens& lens,
                                        const std::set<const Node*>& others = {});

} // namespace gpuactors::ledger_detail
