// Nodes and devices that come and go.
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/ledger.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

namespace {

// Takes what a borrower keeps off what is kept of its lender's lease, which includes it.
void take_off(Lease& rest, const Lease& borrower) {
  for (const auto& device : borrower.devices) {
    const auto it = std::find_if(rest.devices.begin(), rest.devices.end(),
                                 [&](const DeviceGrant& mine) { return mine.index == device.index; });
    GPUACTORS_LEDGER_CHECK(it != rest.devices.end(), "a borrower keeps of a device what its lender did not have");
    it->share -= device.share;
    it->memory_bytes -= device.memory_bytes;
    if (it->share == Share{} && it->memory_bytes == 0)
      rest.devices.erase(it);
  }
  rest.cpus -= borrower.cpus;
  for (const auto& [name, amount] : borrower.resources)
    if (const auto it = rest.resources.find(name); it != rest.resources.end())
      it->second -= amount;
}

// The opposite, when the borrower's holder has ended before its lender's.
void put_back(Lease& rest, const Lease& borrower) {
  for (const auto& device : borrower.devices) {
    const auto it = std::lower_bound(rest.devices.begin(), rest.devices.end(), device.index,
                                     [](const DeviceGrant& mine, int index) { return mine.index < index; });
    if (it == rest.devices.end() || it->index != device.index) {
      rest.devices.insert(it, device);
    } else {
      it->share += device.share;
      it->memory_bytes += device.memory_bytes;
    }
  }
  rest.cpus += borrower.cpus;
  for (const auto& [name, amount] : borrower.resources)
    rest.resources[name] += amount;
}

Failure no_node(const ledger_detail::NodeTable& table, std::string_view name) {
  return fail(Errc::not_found, fmt::format("there is no node \"{}\"{}", name, did_you_mean(name, table.names())));
}

} // namespace

Result<Ledger::Events> Ledger::add_node(NodeSpec spec, TimePoint now) {
  GPUACTORS_TRY(validate(spec));
  if (table_.find(spec.name) != nullptr)
    return fail(Errc::already_exists, fmt::format("node \"{}\" is already there", spec.name));
  Events events;
  pass_time(now, events);
  forget_types();
  note_freed(table_.add(std::move(spec), ++last_pool_).pool, {});
  recheck_due_ = !queue_.entries().empty();
  pump(events);
  return events;
}

std::string_view Ledger::type_name(TypeId type) const {
  return table_.types().name_of(type);
}

TypeId Ledger::type(std::string_view name) {
  auto& types = table_.types();
  if (name.empty())
    return {};
  if (const auto known = types.find(name))
    return known;
  forget_types();
  return types.number_of(name);
}

// Requests may name types without end that no node has, and so may nodes that come and go.
void Ledger::forget_types() {
  auto& types = table_.types();
  if (types.size() < most_types_)
    return;
  std::set<TypeId> needed;
  for (const auto& [key, shape] : queue_.shapes())
    needed.insert(key.request.type);
  types.forget_all_but(std::move(needed));
  most_types_ = std::max(least_types, 2 * types.size());
}

Result<Ledger::Node*> Ledger::begin_drain(std::string_view name, TimePoint now, Events& events) {
  auto* node = table_.find(name);
  if (node == nullptr)
    return no_node(table_, name);
  pass_time(now, events);
  table_.drain(*node);
  drop_reservations_on(*node);
  recheck_due_ = true;
  return node;
}

Result<Ledger::Events> Ledger::drain_node(std::string_view name, TimePoint now) {
  Events events;
  GPUACTORS_TRY(begin_drain(name, now, events));
  pump(events);
  return events;
}

Result<Ledger::Events> Ledger::undrain_node(std::string_view name, TimePoint now) {
  auto* node = table_.find(name);
  if (node == nullptr)
    return no_node(table_, name);
  Events events;
  pass_time(now, events);
  if (!node->takes_leases()) {
    // For waiting requests this is equivalent to a new node.
    table_.undrain(*node);
    note_freed(node->pool, {});
    recheck_due_ = !queue_.entries().empty();
  }
  pump(events);
  return events;
}

Result<void> Ledger::suspend_node(std::string_view name) {
  auto* node = table_.find(name);
  if (node == nullptr)
    return no_node(table_, name);
  table_.suspend(*node, true);
  return {};
}

Result<Ledger::Events> Ledger::unsuspend_node(std::string_view name, TimePoint now) {
  auto* node = table_.find(name);
  if (node == nullptr)
    return no_node(table_, name);
  Events events;
  pass_time(now, events);
  if (node->suspended) {
    table_.suspend(*node, false);
    note_all_freed(*node);
  }
  pump(events);
  return events;
}

void Ledger::note_all_freed(Node& node) {
  note_freed(node.pool, {});
  for (auto& [id, group] : groups_)
    for (auto& bundle : group.bundles)
      if (bundle.source->node == &node)
        note_freed(*bundle.pool, id);
}

Result<Ledger::Events> Ledger::set_types(std::string_view name, std::optional<std::vector<std::string>> types,
                                         TimePoint now) {
  auto* node = table_.find(name);
  if (node == nullptr)
    return no_node(table_, name);
  GPUACTORS_TRY(check_types(node->spec.name, types));
  Events events;
  pass_time(now, events);
  forget_types();
  if (table_.set_types(*node, types)) {
    // A place that is held back may be one for a type that is gone.
    drop_reservations_on(*node);
    note_all_freed(*node);
    recheck_due_ = !queue_.entries().empty();
  }
  pump(events);
  return events;
}

Result<Ledger::Events> Ledger::remove_node(std::string_view name, TimePoint now) {
  Events events;
  GPUACTORS_LET(node, begin_drain(name, now, events));
  lose_on(*node, std::nullopt, fmt::format("node {} was removed", name), events);
  free_remains_on(*node);
  forget_pool(node->pool);
  table_.remove(*node);
  pump(events);
  return events;
}

Result<Ledger::Events> Ledger::fail_device(std::string_view name, int index, TimePoint now, Holders holders) {
  auto* node = table_.find(name);
  if (node == nullptr)
    return no_node(table_, name);
  auto* slot = node->pool.slot(index);
  if (slot == nullptr)
    return fail(Errc::not_found,
                fmt::format("node {} has no device {}: it has {} devices", name, index, node->pool.slots.size()));
  Events events;
  pass_time(now, events);
  if (slot->ok) {
    const auto before = events.size();
    std::map<LeaseId, LeaseId> lenders;
    for (const auto& [id, record] : records_)
      lenders.emplace(id, record.lease.parent);
    table_.fail(*node, *slot);
    drop_reservations_on(*node);
    lose_on(*node, index, fmt::format("device {} of node {} failed", index, name), events);
    if (holders == Holders::stay)
      keep_remains(std::span{events}.subspan(before), lenders);
    recheck_due_ = true;
  }
  pump(events);
  return events;
}

void Ledger::keep_remains(std::span<const Event> events, const std::map<LeaseId, LeaseId>& lenders) {
  // Returns the nearest lender of whose lease anything is still taken.
  const auto lender_of = [&](LeaseId id) {
    for (auto it = lenders.find(id); it != lenders.end() && it->second; it = lenders.find(it->second))
      if (records_.count(it->second) > 0 || remains_.count(it->second) > 0)
        return it->second;
    return LeaseId{};
  };
  // Lenders first: what borrowers keep is taken off that.
  std::map<LeaseId, const Event*> lost;
  for (const auto& event : events)
    if (event.kind == Event::Kind::lost && event.lease)
      lost.emplace(event.lease->id, &event);
  for (const auto& [id, event] : lost)
    // Nothing of it has come back while others have parts of it that were not lost.
    if (const auto record = records_.find(id); record != records_.end())
      record->second.holder_stays = true;
    else
      keep_rest(*event->lease, lender_of(id));
}

void Ledger::keep_rest(Lease rest, LeaseId lender) {
  auto& pool = table_.find(rest.node)->pool;
  std::erase_if(rest.devices, [&](const DeviceGrant& device) { return !pool.slot(device.index)->ok; });
  if (const auto group = groups_.find(rest.group); group != groups_.end())
    rest.owner = group->second.request.owner;
  rest.group = GroupId{};
  rest.bundle = 0;
  rest.parent = lender;
  if (const auto of = remains_.find(lender); of != remains_.end()) {
    take_off(of->second, rest);
    taken_from_.try_emplace(rest.id, lender);
    rest.parent = of->second.parent;
    rest.owner = of->second.owner;
  } else if (!lender) {
    table_.take(pool, rest.devices, rest.cpus, rest.resources);
    charge(rest.owner, rest.devices);
  }
  const auto id = rest.id;
  remains_.emplace(id, std::move(rest));
}

void Ledger::keep_rests_within(const Lease& lender, bool lender_stays) {
  std::vector<LeaseId> ids;
  for (const auto& [id, rest] : remains_)
    if (rest.parent == lender.id)
      ids.push_back(id);
  for (const auto id : ids) {
    auto rest = std::move(remains_.extract(id).mapped());
    rest.owner = lender.owner;
    keep_rest(std::move(rest), lender_stays ? lender.id : lender.parent);
  }
}

void Ledger::free_remains(Remains::iterator it) {
  const auto& [id, rest] = *it;
  const auto from = taken_from_.extract(id);
  const auto lender = from.empty() ? LeaseId{} : from.mapped();
  for (auto other = taken_from_.begin(); other != taken_from_.end();) {
    const auto one = other++;
    if (one->second == id && lender)
      one->second = lender;
    else if (one->second == id)
      taken_from_.erase(one);
  }
  // The process of a lender that has not ended may still use it. What is in a lender's lease goes back with that.
  if (lender) {
    put_back(remains_.at(lender), rest);
  } else if (!rest.parent) {
    auto& pool = table_.find(rest.node)->pool;
    table_.give_back(pool, rest.devices, rest.cpus, rest.resources);
    discharge(rest.owner, rest.devices);
    note_given_back(pool, {});
  }
  remains_.erase(it);
}

void Ledger::free_remains_on(const Node& node) {
  for (auto it = remains_.begin(); it != remains_.end();) {
    const auto one = it++;
    if (one->second.node == node.spec.name)
      free_remains(one);
  }
}

void Ledger::lose_on(const Node& node, std::optional<int> index, const std::string& reason, Events& events) {
  const auto touches = [&](std::string_view on, const std::vector<DeviceGrant>& devices) {
    if (on != node.spec.name || !index)
      return on == node.spec.name;
    for (const auto& device : devices)
      if (device.index == *index)
        return true;
    return false;
  };
  std::set<LeaseId> ids;
  for (const auto& [id, record] : records_)
    if (touches(record.lease.node, record.lease.devices))
      ids.insert(id);
  lose(ids, reason, events);
  for (const auto& [id, group] : groups_) {
    std::set<int> numbers;
    for (const auto& bundle : group.bundles)
      if (touches(bundle.grant.node, bundle.grant.devices))
        numbers.insert(bundle.grant.bundle);
    if (numbers.empty())
      continue;
    // All bundles must be on one node, so the remaining ones cannot stay without the lost ones.
    if (group.request.strategy == GroupStrategy::strict_pack && !group.request.shrinks)
      for (const auto& bundle : group.bundles)
        numbers.insert(bundle.grant.bundle);
    lose_bundles(id, numbers, reason, events);
  }
}

} // namespace gpuactors
