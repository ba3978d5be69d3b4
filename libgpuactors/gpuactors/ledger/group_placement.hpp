// Chooses the places of the bundles of a placement group: all of them, or none.
//
// Assumes that groups are small compared with the cluster. Bundles are placed hardest first (devices, then share or
// memory, then cpus, then their number in the group). strict_spread is exact: a matching of bundles and nodes. The
// other strategies start with a greedy pass that places each bundle where a single request would go (strict_pack and
// pack: on the node of the hardest bundle; spread: on nodes not used yet). If it fails, a search over all nodes tries
// the alternatives, and gives up after `search_steps`, or `search_looks`. So a group that fits is found unless that
// takes more.
#pragma once

#include <gpuactors/ledger/placement.hpp>

namespace gpuactors::ledger_detail {

/// Most steps of the search that follows a failed greedy pass.
inline constexpr std::size_t search_steps = 20'000;
/// Most comparisons of a device with a bundle that was placed before, in that search: groups of hundreds of bundles
/// would take seconds for their steps. About 50 ms.
inline constexpr std::size_t search_looks = 20'000'000;

/// Returns one placement for each bundle, in the group's order, or nothing if the group does not fit. `lens` shows free
/// or total amounts of the nodes that it covers. `others` are the nodes of bundles that the group already has:
/// strict_spread avoids them, spread avoids them if possible, pack prefers them.
[[nodiscard]] std::optional<std::vector<Fit>> place_group(NodeTable& table, const std::vector<ResourceRequest>& bundles,
                                                          GroupStrategy strategy, const Lens& lens,
                                                          const std::set<const Node*>& others = {});

/// Returns how many units the places take of a quota.
[[nodiscard]] std::int64_t charge_of(const std::vector<Fit>& places);

} // namespace gpuactors::ledger_detail
