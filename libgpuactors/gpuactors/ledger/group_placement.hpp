// Where the bundles of a placement group go: all of them, or none.
//
// Assumes that groups are small against the cluster. Bundles are placed hardest first (devices, then share or memory,
// then cpus, then their number in the group). strict_spread is exact: a matching of bundles and nodes. For the others a
// greedy pass places each bundle where a request of its own would go (strict_pack and pack: on the node of the hardest
// bundle; spread: on nodes not used yet); when that fails, a search over all nodes tries the alternatives, and gives up
// after `search_steps`. So a group that fits is found unless it takes more steps than that.
#pragma once

#include <gpuactors/ledger/placement.hpp>

namespace gpuactors::ledger_detail {

/// Steps of the search that follows a failed greedy pass.
inline constexpr int search_steps = 20'000;

/// One placement for each bundle in the group's order. `lens` shows what is free or all there is; `others` are the
/// nodes of the bundles that the group has already: strict_spread avoids them, spread does if it can, pack goes there
/// first.
[[nodiscard]] std::optional<std::vector<Placement>> place_group(Cluster& cluster,
                                                                const std::vector<ResourceRequest>& bundles,
                                                                GroupStrategy strategy, const Lens& lens,
                                                                const std::set<const Node*>& others = {});

/// Why a group does not fit, in words: the bundle that fits nowhere, or that they do not fit together.
[[nodiscard]] std::string explain_group(const Cluster& cluster, const std::vector<ResourceRequest>& bundles,
                                        GroupStrategy strategy, const Lens& lens,
                                        const std::set<const Node*>& others = {});

} // namespace gpuactors::ledger_detail
