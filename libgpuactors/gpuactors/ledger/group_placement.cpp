#include <gpuactors/ledger/group_placement.hpp>
#include <gpuactors/ledger/quotas.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <span>
#include <tuple>

namespace gpuactors::ledger_detail {

namespace {

// How many nodes the greedy pass tries for the whole group before it spreads the bundles over several nodes.
constexpr int nodes_to_pack = 64;

class GroupSearch {
public:
  GroupSearch(NodeTable& table, const std::vector<ResourceRequest>& bundles, GroupStrategy strategy, const Lens& lens,
              const std::set<const Node*>& others)
    : table_(table), bundles_(bundles), strategy_(strategy), lens_(lens), others_(others), chosen_(bundles.size()) {
    order_.resize(bundles.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto hardness = [&](std::size_t i) {
      const auto& b = bundles[i];
      return std::tuple{device_count(b), !b.accelerator_type.empty(), b.gpus, b.memory_bytes, b.cpus};
    };
    std::stable_sort(order_.begin(), order_.end(), [&](auto a, auto b) { return hardness(b) < hardness(a); });
    for (const auto& bundle : bundles) {
      wanted_shares_ += bundle.gpus.units();
      wanted_cpus_ += bundle.cpus.units();
    }
  }

  std::optional<std::vector<Fit>> run() {
    const bool strict_spread = strategy_ == GroupStrategy::strict_spread;
    bool found = false;
    if (strategy_ == GroupStrategy::strict_pack)
      found = pack_strictly();
    else if (strategy_ == GroupStrategy::pack)
      found = (!others_.empty() && pack_on_few_nodes()) || pack_on_one_node() || pack_on_few_nodes() || search_all();
    else
      found = spread_greedily(strict_spread) || (strict_spread ? match() : search_all());
    return found ? std::optional{std::move(chosen_)} : std::nullopt;
  }

private:
  // Places a bundle tentatively, so that later bundles see its amounts as taken.
  void put(std::size_t bundle, Fit fit) {
    chosen_[bundle] = std::move(fit);
    const auto& at = chosen_[bundle];
    lens_.holds.push_back({at.pool, &at.devices, bundles_[bundle].cpus, &bundles_[bundle].resources});
    ++placed_;
  }

  void undo() {
    lens_.holds.pop_back();
    --placed_;
  }

  void reset() {
    while (placed_ > 0)
      undo();
  }

  // Finds a place on a node that is not excluded. The indexes only cover free amounts; for total amounts every node is
  // visited.
  std::optional<Fit> find(const ResourceRequest& request, const std::set<const Node*>& excluded) {
    if (lens_.amount == Lens::Amount::free)
      return place(table_, request, lens_, excluded);
    for (auto& [name, node] : table_.nodes())
      if (lens_.covers(node) && excluded.count(&node) == 0)
        if (auto devices = place_in(node.pool, request, lens_))
          return Fit{&node.pool, std::move(*devices)};
    return std::nullopt;
  }

  bool put_in(std::size_t bundle, Pool& pool) {
    if (auto devices = place_in(pool, bundles_[bundle], lens_)) {
      put(bundle, Fit{&pool, std::move(*devices)});
      return true;
    }
    return false;
  }

  bool put_rest_in(Pool& pool) {
    if (std::all_of(order_.begin() + placed_, order_.end(), [&](std::size_t b) { return put_in(b, pool); }))
      return true;
    reset();
    return false;
  }

  // Tries the nodes that suit the first bundle best. Each try walks past those that are excluded.
  bool pack_on_one_node(std::set<const Node*> excluded = {}) {
    for (int i = 0; i < nodes_to_pack; ++i) {
      auto first = find(bundles_[order_[0]], excluded);
      if (!first)
        return false;
      auto& pool = *first->pool;
      put(order_[0], std::move(*first));
      if (put_rest_in(pool))
        return true;
      excluded.insert(pool.node);
    }
    return false;
  }

  // Asks each node once that has enough in all; of thousands, few do while a group waits.
  bool pack_strictly() {
    std::vector<Pool*> pools;
    std::set<const Node*> too_full;
    for (auto& [name, node] : table_.nodes()) {
      if (lens_.covers(node) && sums_suffice(std::array{&node.pool}))
        pools.push_back(&node.pool);
      else
        too_full.insert(&node);
    }
    if (pools.empty())
      return false;
    if (pack_on_one_node(std::move(too_full))
        || std::any_of(pools.begin(), pools.end(), [&](Pool* pool) { return put_rest_in(*pool); }))
      return true;
    find_repeated();
    return std::any_of(pools.begin(), pools.end(), [&](Pool* pool) { return search({pool}, 0, 0); });
  }

  bool pack_on_few_nodes() {
    std::vector<Pool*> used;
    for (const auto* node : others_)
      if (lens_.covers(*node))
        used.push_back(&table_.find(node->spec.name)->pool);
    std::sort(used.begin(), used.end(), [](const Pool* a, const Pool* b) { return a->node->order < b->node->order; });
    for (const auto bundle : order_) {
      if (std::any_of(used.begin(), used.end(), [&](Pool* pool) { return put_in(bundle, *pool); }))
        continue;
      // The node with the most free share is likely to take most of the remaining bundles.
      auto roomy = bundles_[bundle];
      roomy.strategy = Strategy::spread;
      auto found = find(roomy, {});
      if (!found) {
        reset();
        return false;
      }
      used.push_back(found->pool);
      put(bundle, std::move(*found));
    }
    return true;
  }

  bool spread_greedily(bool strict) {
    auto used = others_;
    for (const auto bundle : order_) {
      auto found = find(bundles_[bundle], used);
      if (!found && !strict)
        found = find(bundles_[bundle], {});
      if (!found) {
        reset();
        return false;
      }
      used.insert(found->pool->node);
      put(bundle, std::move(*found));
    }
    return true;
  }

  // Places strict_spread exactly. Bundles on different nodes do not compete, so the problem is a bipartite matching of
  // bundles and nodes. A bundle that fits on as many nodes as there are bundles always gets one, so no more candidates
  // are needed.
  bool match() {
    std::vector<std::vector<Fit>> candidates(bundles_.size());
    for (const auto bundle : order_) {
      auto seen = others_;
      while (candidates[bundle].size() < bundles_.size()) {
        auto found = find(bundles_[bundle], seen);
        if (!found)
          break;
        seen.insert(found->pool->node);
        candidates[bundle].push_back(std::move(*found));
      }
    }
    std::map<Pool*, std::size_t> holder;
    std::vector<const Fit*> at(bundles_.size());
    std::set<Pool*> visited;
    const std::function<bool(std::size_t)> seat = [&](std::size_t bundle) {
      for (const auto& candidate : candidates[bundle]) {
        if (!visited.insert(candidate.pool).second)
          continue;
        const auto it = holder.find(candidate.pool);
        if (it != holder.end() && !seat(it->second))
          continue;
        holder[candidate.pool] = bundle;
        at[bundle] = &candidate;
        return true;
      }
      return false;
    };
    for (const auto bundle : order_) {
      visited.clear();
      if (!seat(bundle))
        return false;
    }
    for (const auto bundle : order_)
      put(bundle, *at[bundle]);
    return true;
  }

  bool search_all() {
    if (table_.nodes().size() > search_steps)
      return false;
    std::vector<Pool*> pools;
    for (auto& [name, node] : table_.nodes())
      if (lens_.covers(node))
        pools.push_back(&node.pool);
    if (!sums_suffice(pools))
      return false;
    find_repeated();
    return search(pools, 0, 0);
  }

  // Whether the pools together have the shares and cpus that the bundles ask for together: if not, no way to place them
  // has to be tried.
  [[nodiscard]] bool sums_suffice(std::span<const Pool* const> pools) const {
    auto shares = wanted_shares_;
    auto cpus = wanted_cpus_;
    for (const auto* pool : pools) {
      cpus -= lens_.cpus(*pool).units();
      for (const auto& slot : pool->slots)
        if (slot.ok)
          shares -= lens_.share(*pool, slot).units();
    }
    return shares <= 0 && cpus <= 0;
  }

  // Notes which bundles ask for the same as the one before them. To exchange two of these makes no difference, so that
  // only ways with the later one on the same or a later node are tried; the first way that is found is one of them.
  void find_repeated() {
    repeated_.assign(order_.size(), false);
    for (std::size_t i = 1; i < order_.size(); ++i) {
      auto bundle = bundles_[order_[i]];
      bundle.name = bundles_[order_[i - 1]].name;
      repeated_[i] = bundle == bundles_[order_[i - 1]];
    }
  }

  // Searches depth-first over all ways to place the bundles from `next` on.
  // @param last the place among the pools where the bundle before is.
  bool search(const std::vector<Pool*>& pools, std::size_t next, std::size_t last) {
    if (next == order_.size())
      return true;
    const auto bundle = order_[next];
    for (auto at = repeated_[next] ? last : 0; at < pools.size(); ++at) {
      looked_ += (pools[at]->slots.size() + 1) * (lens_.holds.size() + 1);
      for (auto& devices : choices_in(*pools[at], bundles_[bundle], lens_, search_steps)) {
        if (++steps_ > search_steps || looked_ > search_looks)
          return false;
        put(bundle, Fit{pools[at], std::move(devices)});
        if (search(pools, next + 1, at))
          return true;
        undo();
      }
      if (looked_ > search_looks)
        return false;
    }
    return false;
  }

  NodeTable& table_;
  const std::vector<ResourceRequest>& bundles_;
  GroupStrategy strategy_;
  Lens lens_;
  const std::set<const Node*>& others_;
  std::vector<std::size_t> order_;
  // What the bundles ask for together.
  std::int64_t wanted_shares_ = 0;
  std::int64_t wanted_cpus_ = 0;
  std::vector<Fit> chosen_;
  int placed_ = 0;
  std::size_t steps_ = 0;
  std::size_t looked_ = 0;
  std::vector<bool> repeated_;
};

} // namespace

std::optional<std::vector<Fit>> place_group(NodeTable& table, const std::vector<ResourceRequest>& bundles,
                                            GroupStrategy strategy, const Lens& lens,
                                            const std::set<const Node*>& others) {
  return GroupSearch{table, bundles, strategy, lens, others}.run();
}

std::int64_t charge_of(const std::vector<Fit>& places) {
  Share sum;
  for (const auto& place : places)
    sum += sum_of(place.devices);
  return sum.units();
}

} // namespace gpuactors::ledger_detail
