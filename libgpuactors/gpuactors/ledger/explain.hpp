// Why a request does not fit, in words: the constraint that refused it and what the best node has.
#pragma once

#include <gpuactors/ledger/cluster.hpp>

#include <string>

namespace gpuactors::ledger_detail {

/// Clusters up to this size are searched for the best node.
inline constexpr std::size_t nodes_to_explain = 64;

/// Returns "no node has 3 devices of type V100: node n0 has 2". Empty when the request fits.
///
/// Each node is asked for each constraint in turn (name, draining, labels, type, devices, memory, cpus, resources); the
/// node that passes most of them, then has most of what it lacks, then is first by name, is the one named. Looks at all
/// nodes, except on clusters of more than `nodes_to_explain` when it is about what is free: then at those with the most
/// devices, share, memory or cpus free, so that a long queue does not cost a walk over the nodes for each that joins
/// it.
[[nodiscard]] std::string explain(const Cluster& cluster, const ResourceRequest& request, const Lens& lens);

/// The same for one pool, for instance a bundle; `what` names it ("bundle 0").
[[nodiscard]] std::string explain_in(const Pool& pool, const ResourceRequest& request, const Lens& lens,
                                     std::string_view what);

/// Why it does not fit in one pool, without the pool's name: "asked 3 devices free: has 2". Empty when it fits.
/// `new_lease` is false for a pool that was set aside before, which a draining node still serves.
[[nodiscard]] std::string explain_here(const Pool& pool, const ResourceRequest& request, const Lens& lens,
                                       bool new_lease);

} // namespace gpuactors::ledger_detail
