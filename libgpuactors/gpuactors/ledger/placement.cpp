#include <gpuactors/ledger/placement.hpp>

#include <algorithm>
#include <tuple>

namespace gpuactors::ledger_detail {

namespace {

// One search for the best place of a request.
class Search {
public:
  Search(NodeTable& table, const ResourceRequest& request, const Lens& lens, const std::set<const Node*>& excluded)
    : table_(table), request_(request), lens_(lens), excluded_(excluded) {
    // nop
  }

  std::optional<Fit> run() {
    if (!request_.node.empty()) {
      auto* node = table_.find(request_.node);
      auto found = node != nullptr && node->takes_leases() && !excludes(*node) ? in(*node) : std::nullopt;
      if (found || needs_node(request_))
        return found;
    }
    if (request_.strategy == Strategy::spread)
      return first_of(table_.by_free_share());
    if (!wants_devices(request_))
      return no_device();
    if (!wants_whole_devices(request_)) {
      if (auto found = device_in_use())
        return found;
      return idle_device();
    }
    if (auto found = whole_of_one_kind())
      return found;
    return device_count(request_) > 1 ? whole_of_mixed_kinds() : std::nullopt;
  }

private:
  bool excludes(const Node& node) const {
    return !excluded_.empty() && excluded_.count(&node) > 0;
  }

  // Returns whether the node meets all constraints except those on devices.
  bool accepts(const Node& node) const {
    return !excludes(node) && admits(node, request_) && suffices_besides_devices(node.pool, request_, lens_);
  }

  bool matches(const DevicesOfKind& kind) const {
    return is_of_type(kind.accelerator_type, request_.accelerator_type);
  }

  std::optional<Fit> in(Node& node) const {
    if (auto devices = place_in(node.pool, request_, lens_))
      return Fit{&node.pool, std::move(*devices)};
    return std::nullopt;
  }

  template <class Nodes>
  std::optional<Fit> first_of(const Nodes& nodes) const {
    for (auto* node : nodes)
      if (!excludes(*node))
        if (auto found = in(*node))
          return found;
    return std::nullopt;
  }

  std::optional<Fit> no_device() const {
    for (const auto& nodes : table_.by_cpus())
      if (auto found = first_of(nodes))
        return found;
    return std::nullopt;
  }

  // Returns the best device in use of a kind; the index is in order of preference.
  Slot* best_in_use(const DevicesOfKind& kind, const Need& need) const {
    auto it = kind.in_use.lower_bound(need);
    while (it != kind.in_use.end()) {
      auto* slot = *it;
      if (slot->free_bytes < need.bytes) {
        // Skips all devices with this share and too little memory at once.
        it = kind.in_use.lower_bound(Need{slot->free_share, need.bytes});
        continue;
      }
      if (fits(slot->node->pool, *slot, need, lens_) && accepts(*slot->node))
        return slot;
      ++it;
    }
    return nullptr;
  }

  std::optional<Fit> device_in_use() const {
    using Rank = std::tuple<Share, std::uint64_t, std::uint64_t, int>;
    std::optional<Rank> best;
    Slot* chosen = nullptr;
    Need needed;
    for (const auto& [key, kind] : table_.kinds()) {
      if (kind.in_use.empty() || !matches(kind))
        continue;
      const auto need = need_on(request_, kind.memory_bytes);
      auto* slot = best_in_use(kind, need);
      if (slot == nullptr)
        continue;
      const auto rank =
          Rank{slot->free_share - need.share, slot->free_bytes - need.bytes, slot->node->order, slot->index};
      if (best && !(rank < *best))
        continue;
      best = rank;
      chosen = slot;
      needed = need;
    }
    return grant(chosen, needed);
  }

  // Returns the node's first idle device of the kind that no hold withholds.
  Slot* first_idle(Node& node, const DevicesOfKind& kind, const Need& need) const {
    for (auto& slot : node.pool.slots)
      if (slot.ok && slot.free_share == Share::whole(1) && node.kinds[slot.kind].kind == &kind
          && fits(node.pool, slot, need, lens_))
        return &slot;
    return nullptr;
  }

  std::optional<Fit> idle_device() const {
    using Rank = std::tuple<Share, std::uint64_t, int, std::uint64_t, int>;
    std::optional<Rank> best;
    Slot* chosen = nullptr;
    Need needed;
    for (const auto& [key, kind] : table_.kinds()) {
      const auto need = need_on(request_, kind.memory_bytes);
      if (!matches(kind) || need.share > Share::whole(1) || need.bytes > kind.memory_bytes)
        continue;
      for (auto* candidate : kind.idle) {
        auto* slot = accepts(*candidate->node) ? first_idle(*candidate->node, kind, need) : nullptr;
        if (slot == nullptr)
          continue;
        const auto rank = Rank{Share::whole(1) - need.share, kind.memory_bytes - need.bytes, candidate->idle,
                               candidate->node->order, slot->index};
        if (!best || rank < *best) {
          best = rank;
          chosen = slot;
          needed = need;
        }
        break;
      }
    }
    return grant(chosen, needed);
  }

  static std::optional<Fit> grant(Slot* slot, const Need& need) {
    if (slot == nullptr)
      return std::nullopt;
    return Fit{&slot->node->pool, {DeviceGrant{slot->index, need.share, need.bytes}}};
  }

  // Returns the requested number of devices of one kind, those closest to each other; nothing if there are too few.
  std::optional<Fit> whole_in(Node& node, const DevicesOfKind& kind, const Need& need) const {
    const auto count = device_count(request_);
    std::vector<const Slot*> candidates;
    for (const auto& slot : node.pool.slots) {
      if (candidates.size() == count && !node.topology.is_known())
        break;
      if (slot.ok && node.kinds[slot.kind].kind == &kind && fits(node.pool, slot, need, lens_))
        candidates.push_back(&slot);
    }
    if (candidates.size() < count)
      return std::nullopt;
    return Fit{&node.pool, closest_of(candidates, count, request_)};
  }

  std::optional<Fit> whole_of_one_kind() const {
    using Rank = std::tuple<int, std::uint64_t, std::uint64_t>;
    std::optional<Rank> best;
    std::optional<Fit> chosen;
    for (const auto& [key, kind] : table_.kinds()) {
      const auto need = need_on(request_, kind.memory_bytes);
      if (!matches(kind) || need.bytes > kind.memory_bytes)
        continue;
      const auto wanted = static_cast<int>(std::min<std::size_t>(device_count(request_), limit_of_devices));
      for (auto it = kind.idle.lower_bound(wanted); it != kind.idle.end(); ++it) {
        auto& node = *(*it)->node;
        const auto rank = Rank{(*it)->idle, kind.memory_bytes, node.order};
        if (best && !(rank < *best))
          break;
        if (!accepts(node))
          continue;
        if (auto found = whole_in(node, kind, need)) {
          best = rank;
          chosen = std::move(found);
          break;
        }
      }
    }
    return chosen;
  }

  std::optional<Fit> whole_of_mixed_kinds() const {
    std::optional<Fit> chosen;
    int fewest = 0;
    for (const auto& [name, node] : table_.mixed()) {
      if (!node->takes_leases() || excludes(*node))
        continue;
      int idle = 0;
      for (const auto& kind : node->kinds)
        if (matches(*kind.kind))
          idle += kind.idle;
      if (chosen && idle >= fewest)
        continue;
      if (auto found = in(*node)) {
        fewest = idle;
        chosen = std::move(found);
      }
    }
    return chosen;
  }

  // More devices than any node has; keeps the conversion to int safe for absurdly large requests.
  static constexpr std::size_t limit_of_devices = std::size_t{1} << 20;

  NodeTable& table_;
  const ResourceRequest& request_;
  const Lens& lens_;
  const std::set<const Node*>& excluded_;
};

bool is_held(const Lens& lens, const Pool& pool) {
  return std::any_of(lens.holds.begin(), lens.holds.end(), [&](const Hold& hold) { return hold.pool == &pool; });
}

// Returns the most idle devices of a kind in one node, and the most free share on one device of that kind. The indexes
// are sorted, so the search ends at the first entry that no hold affects.
std::pair<std::int64_t, Share> most_free_of(const DevicesOfKind& kind, const Lens& lens) {
  std::int64_t idle = 0;
  Share share;
  for (auto it = kind.idle.rbegin(); it != kind.idle.rend(); ++it) {
    const auto& node = *(*it)->node;
    if (!is_held(lens, node.pool)) {
      idle = std::max<std::int64_t>(idle, (*it)->idle);
      share = Share::whole(1);
      break;
    }
    std::int64_t untouched = 0;
    for (const auto& slot : node.pool.slots) {
      if (!slot.ok || node.kinds[slot.kind].kind != &kind)
        continue;
      share = std::max(share, lens.share(node.pool, slot));
      untouched += lens.share(node.pool, slot) == Share::whole(1) ? 1 : 0;
    }
    idle = std::max(idle, untouched);
  }
  for (auto it = kind.in_use.rbegin(); it != kind.in_use.rend() && (*it)->free_share > share; ++it) {
    share = std::max(share, lens.share((*it)->node->pool, **it));
    if (!is_held(lens, (*it)->node->pool))
      break;
  }
  return {idle, share};
}

} // namespace

std::int64_t most_free(const NodeTable& table, const std::string& accelerator_type, Measure measure, const Lens& lens) {
  std::int64_t most = 0;
  if (measure == Measure::cpus) {
    // Ignores holds on cpus: a bound need not be tight.
    for (const auto& nodes : table.by_cpus())
      if (!nodes.empty())
        most = std::max(most, (*nodes.rbegin())->pool.free_cpus.units());
    return most;
  }
  for (const auto& [key, kind] : table.kinds()) {
    if (!is_of_type(kind.accelerator_type, accelerator_type))
      continue;
    const auto [idle, share] = most_free_of(kind, lens);
    if (measure == Measure::devices)
      // If a node mixes kinds, devices of several kinds can serve one request together.
      most = table.mixed().empty() ? std::max(most, idle) : most + idle;
    else if (measure == Measure::share)
      most = std::max(most, share.units());
    else
      most = std::max(most, static_cast<std::int64_t>(memory_for_share(kind.memory_bytes, share)));
  }
  return most;
}

std::optional<Fit> place(NodeTable& table, const ResourceRequest& request, const Lens& lens,
                         const std::set<const Node*>& excluded) {
  return Search{table, request, lens, excluded}.run();
}

bool fits_somewhere(const NodeTable& table, const ResourceRequest& request, const Lens& lens) {
  if (needs_node(request)) {
    const auto* node = table.find(request.node);
    return node != nullptr && lens.covers(*node) && place_in(node->pool, request, lens).has_value();
  }
  return std::any_of(table.nodes().begin(), table.nodes().end(), [&](const auto& item) {
    return lens.covers(item.second) && place_in(item.second.pool, request, lens).has_value();
  });
}

} // namespace gpuactors::ledger_detail
