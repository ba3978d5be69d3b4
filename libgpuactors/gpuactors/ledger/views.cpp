// Views: copies of the ledger's state, and the names of what is in them.
#include <gpuactors/ledger/ledger.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace gpuactors {

namespace {

NodeView view_of(const ledger_detail::Node& node) {
  NodeView view{node.spec.name,   node.state,          node.spec.cpus,           node.pool.free_cpus,
                node.spec.labels, node.spec.resources, node.pool.free_resources, {}};
  for (const auto& slot : node.pool.slots) {
    const auto state = slot.ok ? DeviceState::ok : DeviceState::failed;
    view.devices.push_back({slot.index,
                            node.device(slot),
                            state,
                            slot.ok ? slot.free_share : Share{},
                            slot.ok ? slot.free_bytes : 0,
                            {},
                            {}});
  }
  return view;
}

// Adds a group to the devices of one of its bundles, once for each device. Groups must come in the order of their ids.
void add_group(NodeView& view, const BundleGrant& bundle, GroupId id) {
  for (const auto& device : bundle.devices)
    if (auto& ids = view.devices[static_cast<std::size_t>(device.index)].groups; ids.empty() || ids.back() != id)
      ids.push_back(id);
}

} // namespace

std::vector<NodeView> Ledger::nodes() const {
  std::vector<NodeView> views;
  std::map<std::string_view, std::size_t> at;
  for (const auto& [name, node] : table_.nodes()) {
    at.emplace(name, views.size());
    views.push_back(view_of(node));
  }
  for (const auto& [id, record] : records_)
    if (!record.ended)
      for (const auto& device : record.lease.devices)
        views[at.at(record.lease.node)].devices[static_cast<std::size_t>(device.index)].leases.push_back(id);
  for (const auto& [id, group] : groups_)
    for (const auto& bundle : group.bundles)
      add_group(views[at.at(bundle.grant.node)], bundle.grant, id);
  return views;
}

std::optional<NodeView> Ledger::node(std::string_view name) const {
  const auto* node = table_.find(name);
  if (node == nullptr)
    return std::nullopt;
  auto view = view_of(*node);
  for (const auto& [id, record] : records_)
    if (!record.ended && record.lease.node == name)
      for (const auto& device : record.lease.devices)
        view.devices[static_cast<std::size_t>(device.index)].leases.push_back(id);
  for (const auto& [id, group] : groups_)
    for (const auto& bundle : group.bundles)
      if (bundle.grant.node == name)
        add_group(view, bundle.grant, id);
  return view;
}

std::vector<Lease> Ledger::leases() const {
  std::vector<Lease> leases;
  for (const auto& [id, record] : records_)
    if (!record.ended)
      leases.push_back(record.lease);
  return leases;
}

const Lease* Ledger::find_lease(LeaseId id) const {
  const auto* record = live(id);
  return record == nullptr ? nullptr : &record->lease;
}

std::vector<Lease> Ledger::remains() const {
  std::vector<Lease> remains;
  for (const auto& [id, rest] : remains_)
    remains.push_back(rest);
  for (const auto& [id, record] : records_)
    if (record.holder_stays)
      remains.push_back(record.lease);
  return remains;
}

const Lease* Ledger::find_remains(LeaseId id) const {
  if (const auto it = remains_.find(id); it != remains_.end())
    return &it->second;
  const auto it = records_.find(id);
  return it != records_.end() && it->second.holder_stays ? &it->second.lease : nullptr;
}

void Ledger::for_each_held(std::string_view node, const std::function<void(const Lease&)>& visit) const {
  const auto look = [&](const Lease& lease) {
    if (lease.node == node)
      visit(lease);
  };
  for (const auto& [id, record] : records_)
    if (!record.ended)
      look(record.lease);
  for (const auto& [id, rest] : remains_)
    look(rest);
  for (const auto& [id, record] : records_)
    if (record.holder_stays)
      look(record.lease);
}

const Lease* Ledger::lease_of(RequestId id) const {
  const auto it = holders_.find(id);
  return it == holders_.end() ? nullptr : find_lease(it->second);
}

std::vector<BundleGrant> Ledger::bundles_of(GroupId id) const {
  std::vector<BundleGrant> bundles;
  if (const auto it = groups_.find(id); it != groups_.end())
    for (const auto& bundle : it->second.bundles)
      bundles.push_back(bundle.grant);
  return bundles;
}

std::set<LeaseId> Ledger::held_in(GroupId id) const {
  const auto it = groups_.find(id);
  if (it == groups_.end() || it->second.leases.empty())
    return {};
  auto ids = it->second.leases;
  add_descendants(ids);
  return ids;
}

bool Ledger::is_pending(RequestId id) const {
  return queue_.find(id) != nullptr;
}

std::size_t Ledger::pending_count() const {
  return queue_.entries().size();
}

bool Ledger::could_be_served(RequestId id) const {
  const auto* entry = queue_.find(id);
  return entry != nullptr && entry->shape->prospect.feasible && !over_quota(id);
}

void Ledger::for_each_pending(std::size_t most_reasons, const std::function<bool(const PendingView&)>& visit) const {
  std::map<const Shape*, std::string> reasons;
  // Of those that only reservations are in the way of: the text, and how many reservations are in front of them.
  // Whoever waits for the same behind as many is told the same.
  std::map<const Shape*, std::pair<std::ptrdiff_t, std::string>> held;
  const auto in_front_of = [this](const QueueKey& at) {
    return std::count_if(claims_.begin(), claims_.end(),
                         [&](const auto& item) { return item.second.reservation && item.second.holder < at; });
  };
  for (const auto& [key, entry] : queue_.entries()) {
    auto reason = reasons.find(entry.shape);
    if (reason == reasons.end() && reasons.size() < most_reasons)
      reason = reasons.emplace(entry.shape, why_blocked(*entry.shape->key, entry.shape->prospect)).first;
    const auto text = [&, &at = key, &waiting = entry] {
      if (reason == reasons.end())
        return std::string{};
      if (!reason->second.empty())
        return reason->second;
      const auto count = in_front_of(at);
      auto& [known, words] = held.try_emplace(waiting.shape, -1, std::string{}).first->second;
      if (known != count) {
        known = count;
        words = held_back_for(*waiting.shape->key, at);
      }
      return words;
    };
    if (!visit({entry.request, entry.group, entry.name, key.priority, entry.since, text()}))
      return;
  }
}

std::vector<PendingView> Ledger::pending() const {
  std::vector<PendingView> views;
  for_each_pending(std::numeric_limits<std::size_t>::max(), [&](const PendingView& view) {
    views.push_back(view);
    return true;
  });
  return views;
}

std::vector<ReservationView> Ledger::reservations() const {
  std::vector<ReservationView> views;
  for (const auto& [priority, claim] : claims_) {
    if (!claim.reservation)
      continue;
    const auto& entry = *queue_.find(claim.holder);
    ReservationView view{priority, entry.request, entry.group, {}, claim.reservation->until};
    for (const auto& place : claim.reservation->places)
      view.places.push_back({static_cast<int>(view.places.size()), place.at.pool->node->spec.name, place.at.devices,
                             place.cpus, place.resources});
    views.push_back(std::move(view));
  }
  return views;
}

std::string_view to_string(DeviceState state) noexcept {
  return state == DeviceState::ok ? "ok" : "failed";
}

std::string_view to_string(NodeVerdict::Kind kind) noexcept {
  switch (kind) {
  case NodeVerdict::Kind::fits:
    return "fits";
  case NodeVerdict::Kind::held_back:
    return "held back";
  case NodeVerdict::Kind::busy:
    return "busy";
  case NodeVerdict::Kind::draining:
    return "draining";
  case NodeVerdict::Kind::never:
    return "never";
  }
  return "unknown";
}

std::string_view to_string(NodeState state) noexcept {
  return state == NodeState::ok ? "ok" : "draining";
}

} // namespace gpuactors
