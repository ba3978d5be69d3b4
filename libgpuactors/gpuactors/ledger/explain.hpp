// Why a request does not fit, in words: the constraint that refused it and what the best node has.
#pragma once

#include <gpuactors/ledger/cluster.hpp>

#include <string>

namespace gpuactors::ledger_detail {

/// Returns "no node has 3 devices of type V100: node n0 has 2".
///
/// Each node is asked for each constraint in turn (name, draining, labels, type, devices, memory, cpus, resources); the
/// node that passes most of them, then has most of what it lacks, then is first by name, is the one named. Looks at all
/// nodes. Empty when the request fits.
[[nodiscard]] std::string explain(const Cluster& cluster, const ResourceRequest& request, const Lens& lens);

/// The same for one pool, for instance a bundle; `what` names it ("bundle 0").
[[nodiscard]] std::string explain_in(const Pool& pool, const ResourceRequest& request, const Lens& lens,
                                     std::string_view what);

} // namespace gpuactors::ledger_detail
