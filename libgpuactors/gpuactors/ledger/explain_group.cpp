#include <gpuactors/ledger/explain.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors::ledger_detail {

namespace {

// Returns for example "; 2 of them have room for one". Empty for free amounts on large clusters, because visiting all
// nodes for each group that joins a long queue would be slow.
std::string room_for_bundles(const NodeTable& table, const std::vector<ResourceRequest>& bundles, bool together,
                             const Lens& lens) {
  if (table.nodes().size() > nodes_to_explain && lens.amount == Lens::Amount::free)
    return {};
  std::size_t with_room = 0;
  Share most;
  std::string best;
  for (const auto& [name, node] : table.nodes()) {
    const auto fits_here = [&pool = node.pool, &table, &lens](const ResourceRequest& bundle) {
      return explain_here(pool, bundle, lens, table.types(), true).empty();
    };
    with_room += std::any_of(bundles.begin(), bundles.end(), fits_here) ? 1 : 0;
    Share sum;
    for (const auto& slot : node.pool.slots)
      sum = sum + (slot.ok && lens.covers(node) ? lens.share(node.pool, slot) : Share{});
    if (sum > most) {
      most = sum;
      best = name;
    }
  }
  if (!together)
    return with_room == table.nodes().size()
               ? std::string{}
               : fmt::format("; {} of them {} room for one", with_room, with_room == 1 ? "has" : "have");
  Share asked;
  for (const auto& bundle : bundles)
    asked = asked + bundle.gpus;
  return asked == Share{} || best.empty()
             ? std::string{}
             : fmt::format("; they ask for {} devices in all, the most on one node is {}, on node {}", to_string(asked),
                           to_string(most), best);
}

} // namespace

std::string explain_group(const NodeTable& table, const std::vector<ResourceRequest>& bundles, GroupStrategy strategy,
                          const Lens& lens, const std::set<const Node*>& others) {
  for (std::size_t i = 0; i < bundles.size(); ++i)
    if (const auto reason = explain(table, bundles[i], lens); !reason.empty())
      return fmt::format("bundle {}: {}", i, reason);
  const std::string free = lens.amount == Lens::Amount::free ? " with what is free now" : "";
  switch (strategy) {
  case GroupStrategy::strict_pack:
    return fmt::format("no node takes all {} bundles together{}{}", bundles.size(), free,
                       room_for_bundles(table, bundles, true, lens));
  case GroupStrategy::strict_spread:
    if (!others.empty())
      return fmt::format("{} of the bundles need a node each{} beside the {} of the others: the number of nodes is {}",
                         bundles.size(), free, others.size(), table.nodes().size());
    return fmt::format("the {} bundles need a node each{}: the number of nodes is {}{}", bundles.size(), free,
                       table.nodes().size(), room_for_bundles(table, bundles, false, lens));
  case GroupStrategy::pack:
  case GroupStrategy::spread:
    break;
  }
  return fmt::format("the {} bundles fit one by one but not together{}{}", bundles.size(), free,
                     room_for_bundles(table, bundles, true, lens));
}

} // namespace gpuactors::ledger_detail
