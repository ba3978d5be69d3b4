#include <gpuactors/ledger/node_table.hpp>
#include <gpuactors/ledger/pool.hpp>

#include <algorithm>
#include <tuple>

namespace gpuactors::ledger_detail {

namespace {

using Grants = std::vector<DeviceGrant>;

void sort_by_index(Grants& grants) {
  std::sort(grants.begin(), grants.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
}

const DeviceGrant* find_device(const Grants& devices, int index) {
  for (const auto& device : devices)
    if (device.index == index)
      return &device;
  return nullptr;
}

Share amount_of(const std::map<std::string, Share>& resources, const std::string& name) {
  const auto it = resources.find(name);
  return it == resources.end() ? Share{} : it->second;
}

// Whether the device works and has the type that is asked for.
bool is_candidate(const Slot& slot, const std::string& accelerator_type) {
  return slot.ok && is_of_type(slot.node->device(slot).accelerator_type, accelerator_type);
}

// Places whole devices: of one kind (type and size) if enough of one kind fit, preferring the kind of which the fewest
// fit; otherwise of several kinds.
std::optional<Grants> place_whole(const Pool& pool, const ResourceRequest& request, const Lens& lens) {
  std::map<std::pair<std::uint64_t, std::string_view>, std::vector<const Slot*>> kinds;
  std::vector<const Slot*> all;
  const auto count = device_count(request);
  for (const auto& slot : pool.slots) {
    const auto& spec = slot.node->device(slot);
    if (is_candidate(slot, request.accelerator_type) && fits(pool, slot, need_on(request, spec.memory_bytes), lens))
      kinds[{spec.memory_bytes, spec.accelerator_type}].push_back(&slot);
  }
  const std::vector<const Slot*>* chosen = nullptr;
  for (const auto& [kind, slots] : kinds) {
    all.insert(all.end(), slots.begin(), slots.end());
    if (slots.size() >= count && (chosen == nullptr || slots.size() < chosen->size()))
      chosen = &slots;
  }
  if (chosen == nullptr)
    chosen = &all;
  if (chosen->size() < count)
    return std::nullopt;
  return closest_of(*chosen, count, request);
}

std::optional<Grants> place_fraction(const Pool& pool, const ResourceRequest& request, const Lens& lens) {
  using Rank = std::tuple<bool, std::int64_t, std::uint64_t>;
  std::optional<Rank> best;
  DeviceGrant grant;
  for (const auto& slot : pool.slots) {
    if (!is_candidate(slot, request.accelerator_type))
      continue;
    const auto need = need_on(request, slot.node->device(slot).memory_bytes);
    if (!fits(pool, slot, need, lens))
      continue;
    const bool all = lens.amount == Lens::Amount::all;
    const auto share = all ? slot.share : slot.free_share;
    const auto bytes = all ? slot.bytes : slot.free_bytes;
    // Spreading prefers the largest amounts; ~ reverses the order of unsigned numbers.
    const auto rank = request.strategy == Strategy::spread
                          ? Rank{false, -share.units(), ~bytes}
                          : Rank{share == Share::whole(1), (share - need.share).units(), bytes - need.bytes};
    if (best && !(rank < *best))
      continue;
    best = rank;
    grant = {slot.index, need.share, need.bytes};
  }
  if (!best)
    return std::nullopt;
  return Grants{grant};
}

} // namespace

// -- pools -----------------------------------------------------------------------------------------

const Slot* Pool::slot(int index) const {
  // A node's own pool holds its devices in order without gaps, so no search is needed.
  if (index >= 0 && static_cast<std::size_t>(index) < slots.size()
      && slots[static_cast<std::size_t>(index)].index == index)
    return &slots[static_cast<std::size_t>(index)];
  for (const auto& slot : slots)
    if (slot.index == index)
      return &slot;
  return nullptr;
}

Slot* Pool::slot(int index) {
  return const_cast<Slot*>(std::as_const(*this).slot(index));
}

bool Pool::is_untouched() const {
  return free_cpus == cpus && free_resources == resources && std::all_of(slots.begin(), slots.end(), [](const Slot& s) {
           return s.free_share == s.share && s.free_bytes == s.bytes;
         });
}

Pool make_pool(std::uint64_t id, Node& node, const Grants& devices, Share cpus,
               const std::map<std::string, Share>& resources) {
  Pool pool{id, &node, cpus, cpus, resources, resources, {}};
  for (const auto& device : devices)
    pool.slots.push_back(
        {&node, device.index, 0, true, device.share, device.share, device.memory_bytes, device.memory_bytes});
  return pool;
}

// -- lens ------------------------------------------------------------------------------------------

bool Lens::covers(const Node& node) const {
  return with_drained || node.takes_leases();
}

Share Lens::share(const Pool& pool, const Slot& slot) const {
  auto left = amount == Amount::free ? slot.free_share : slot.share;
  for (const auto& hold : holds)
    if (hold.pool == &pool)
      if (const auto* device = find_device(*hold.devices, slot.index))
        left -= device->share;
  return std::max(left, Share{});
}

std::uint64_t Lens::bytes(const Pool& pool, const Slot& slot) const {
  auto left = amount == Amount::free ? slot.free_bytes : slot.bytes;
  for (const auto& hold : holds)
    if (hold.pool == &pool)
      if (const auto* device = find_device(*hold.devices, slot.index))
        left -= std::min(left, device->memory_bytes);
  return left;
}

Share Lens::cpus(const Pool& pool) const {
  auto left = amount == Amount::free ? pool.free_cpus : pool.cpus;
  for (const auto& hold : holds)
    if (hold.pool == &pool)
      left -= hold.cpus;
  return std::max(left, Share{});
}

Share Lens::resource(const Pool& pool, const std::string& name) const {
  auto left = amount_of(amount == Amount::free ? pool.free_resources : pool.resources, name);
  for (const auto& hold : holds)
    if (hold.pool == &pool)
      left -= amount_of(*hold.resources, name);
  return std::max(left, Share{});
}

// -- placement in one pool -------------------------------------------------------------------------

namespace {

// A suspended node counts for what can ever be served, but nothing of it is free now.
bool is_suspended(const Pool& pool, const Lens& lens) {
  return pool.node->suspended && lens.amount == Lens::Amount::free;
}

} // namespace

bool fits(const Pool& pool, const Slot& slot, const Need& need, const Lens& lens) {
  return !is_suspended(pool, lens) && need.share <= lens.most_share && lens.share(pool, slot) >= need.share
         && lens.bytes(pool, slot) >= need.bytes;
}

const std::string* label_of(const Node& node, const std::string& name) {
  const auto it = node.spec.labels.find(name);
  return it == node.spec.labels.end() ? nullptr : &it->second;
}

bool has_labels(const Node& node, const LabelConditions& labels) {
  return std::all_of(labels.begin(), labels.end(),
                     [&](const auto& item) { return item.second.holds(label_of(node, item.first)); });
}

bool admits(const Node& node, const ResourceRequest& request) {
  if (needs_node(request) && request.node != node.spec.name)
    return false;
  if (!has_type(node.types, request.type))
    return false;
  if (!has_labels(node, request.labels))
    return false;
  if (wants_devices(request) || request.accelerator_type.empty())
    return true;
  return std::any_of(node.pool.slots.begin(), node.pool.slots.end(),
                     [&](const Slot& slot) { return is_candidate(slot, request.accelerator_type); });
}

bool suffices_besides_devices(const Pool& pool, const ResourceRequest& request, const Lens& lens) {
  if (request.cpus > Share{} && lens.cpus(pool) < request.cpus)
    return false;
  return std::all_of(request.resources.begin(), request.resources.end(),
                     [&](const auto& item) { return lens.resource(pool, item.first) >= item.second; });
}

Grants closest_of(const std::vector<const Slot*>& candidates, std::size_t count, const ResourceRequest& request) {
  Grants grants;
  grants.reserve(count);
  const auto take = [&](const Slot& slot) {
    const auto need = need_on(request, slot.node->device(slot).memory_bytes);
    grants.push_back({slot.index, need.share, need.bytes});
  };
  const auto& topology = candidates.front()->node->topology;
  if (!topology.is_known() || candidates.size() == count) {
    std::for_each_n(candidates.begin(), count, [&](const Slot* slot) { take(*slot); });
  } else {
    std::vector<int> indices;
    indices.reserve(candidates.size());
    for (const auto* slot : candidates)
      indices.push_back(slot->index);
    for (const auto position : topology.closest(indices, count))
      take(*candidates[position]);
  }
  sort_by_index(grants);
  return grants;
}

std::optional<Grants> place_in(const Pool& pool, const ResourceRequest& request, const Lens& lens) {
  if (is_suspended(pool, lens) || !admits(*pool.node, request) || !suffices_besides_devices(pool, request, lens))
    return std::nullopt;
  if (!wants_devices(request))
    return Grants{};
  return wants_whole_devices(request) ? place_whole(pool, request, lens) : place_fraction(pool, request, lens);
}

// -- choices in one pool ---------------------------------------------------------------------------

namespace {

// Collects all ways to take `wanted` devices in total from the groups of twins from `next` on.
void combine(const std::vector<Grants>& groups, std::size_t next, std::size_t wanted, std::size_t most, Grants& chosen,
             std::vector<Grants>& result) {
  if (wanted == 0) {
    result.push_back(chosen);
    sort_by_index(result.back());
    return;
  }
  if (next == groups.size() || result.size() > most)
    return;
  const auto& twins = groups[next];
  const auto size = chosen.size();
  for (auto count = std::min(wanted, twins.size()) + 1; count-- > 0;) {
    chosen.insert(chosen.end(), twins.begin(), twins.begin() + static_cast<std::ptrdiff_t>(count));
    combine(groups, next + 1, wanted - count, most, chosen, result);
    chosen.resize(size);
  }
}

} // namespace

std::vector<Grants> choices_in(const Pool& pool, const ResourceRequest& request, const Lens& lens, std::size_t most) {
  auto best = place_in(pool, request, lens);
  if (!best)
    return {};
  if (!wants_devices(request))
    return {std::move(*best)};
  using Twins = std::tuple<std::uint64_t, std::string, Share, std::uint64_t>;
  std::map<Twins, Grants> twins;
  for (const auto& slot : pool.slots) {
    const auto& spec = pool.node->device(slot);
    const auto need = need_on(request, spec.memory_bytes);
    if (is_candidate(slot, request.accelerator_type) && fits(pool, slot, need, lens))
      twins[{spec.memory_bytes, spec.accelerator_type, lens.share(pool, slot), lens.bytes(pool, slot)}].push_back(
          {slot.index, need.share, need.bytes});
  }
  std::vector<Grants> groups;
  groups.reserve(twins.size());
  for (auto& [key, devices] : twins)
    groups.push_back(std::move(devices));
  std::vector<Grants> result{std::move(*best)};
  Grants chosen;
  combine(groups, 0, device_count(request), most, chosen, result);
  // The first choice is among the combinations, too: each repetition would double the search below it.
  const auto first = result.front();
  result.erase(std::remove(result.begin() + 1, result.end(), first), result.end());
  return result;
}

} // namespace gpuactors::ledger_detail
