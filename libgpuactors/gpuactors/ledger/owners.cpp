// Owners and their quotas: who has room for what, and what becomes of the waiting requests when a quota changes.
#include <gpuactors/ledger/ledger.hpp>
#include <gpuactors/ledger/placement.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

using ledger_detail::Entry;
using ledger_detail::least_charge;
using ledger_detail::ShapeKey;
using ledger_detail::wants_memory_alone;

namespace {

std::string quota_text(const std::string& owner, Share limit) {
  return fmt::format("the quota of \"{}\" is {} device{}", owner, to_string(limit),
                     limit == Share::whole(1) ? "" : "s");
}

bool is_by_memory(const ShapeKey& key) {
  return key.is_group() ? std::any_of(key.bundles.begin(), key.bundles.end(), wants_memory_alone)
                        : wants_memory_alone(key.request);
}

// What waits is null if there is none.
bool lacks_nodes_or_quota(const Entry* waiting) {
  return waiting != nullptr && !waiting->shape->prospect.feasible && !waiting->shape->key->request.owner.empty();
}

std::optional<std::string> owner_without_room(const Entry* waiting, const ledger_detail::Quotas& quotas) {
  if (waiting == nullptr || !waiting->shape->prospect.feasible
      || waiting->shape->prospect.charge <= quotas.room_of(waiting->shape->key->request.owner))
    return std::nullopt;
  return waiting->owner_name();
}

} // namespace

Ledger::ShapeKey Ledger::shape_key_of(const ResourceRequest& request) const {
  ShapeKey key{ledger_detail::counting_part(request), {}, {}};
  // What a group has set aside counts in the quota of the group's owner already.
  key.request.owner = request.group ? std::string{} : quotas_.bounded(request.owner);
  return key;
}

// -- the count -------------------------------------------------------------------------------------

void Ledger::charge(const std::string& owner, const std::vector<DeviceGrant>& devices) {
  if (owner.empty())
    return;
  quotas_.take(owner, devices);
  quota_due_ = quota_due_ || (!claims_.empty() && quotas_.limit_of(owner));
}

void Ledger::discharge(const std::string& owner, const std::vector<DeviceGrant>& devices) {
  if (owner.empty())
    return;
  // What waited for a place only is woken by what became free.
  if (const auto room = quotas_.room_of(owner); quotas_.limit_of(owner) && queue_.wakes().needs_more(owner, room)) {
    auto& had = grown_.try_emplace(owner, room).first->second;
    had = std::min(had, room);
  }
  quotas_.give_back(owner, devices);
}

std::int64_t Ledger::charge_of(const ShapeKey& key) const {
  if (key.request.owner.empty())
    return 0;
  const auto least_of = [this](const ResourceRequest& request) {
    if (!wants_memory_alone(request))
      return least_charge(request);
    std::optional<Share> least;
    // Drained nodes too: they may come back.
    for (const auto& [name, node] : table_.nodes()) {
      if (!ledger_detail::admits(node, request))
        continue;
      for (const auto& slot : node.pool.slots) {
        const auto& spec = node.device(slot);
        const auto need = ledger_detail::need_on(request, spec.memory_bytes);
        if (slot.ok && need.share <= Share::whole(1)
            && ledger_detail::is_of_type(spec.accelerator_type, request.accelerator_type))
          least = least ? std::min(*least, need.share) : need.share;
      }
    }
    return least ? least->units() : least_charge(request);
  };
  if (!key.is_group())
    return least_of(key.request);
  std::int64_t sum = 0;
  for (const auto& bundle : key.bundles)
    sum += least_of(bundle);
  return sum;
}

std::int64_t Ledger::most_room_for(const ShapeKey& key) const {
  const auto& owner = key.request.owner;
  const auto limit = quotas_.limit_of(owner);
  if (!limit)
    return ledger_detail::Quotas::unlimited;
  return std::max(*limit - ancestor_charge(key.request.parent, owner), Share{}).units();
}

// -- reasons ---------------------------------------------------------------------------------------

std::string Ledger::why_beyond_quota(const ShapeKey& key) const {
  const auto& owner = key.request.owner;
  const auto limit = quotas_.limit_of(owner);
  if (!limit)
    return {};
  const auto most = most_room_for(key);
  const auto charge = charge_of(key);
  const auto text = [&](const std::string& asks) {
    if (charge <= limit->units() && most < limit->units())
      return fmt::format("it would wait for its own parent: {}, what waits for this holds {}, and {}",
                         quota_text(owner, *limit), to_string(Share{limit->units() - most}), asks);
    return fmt::format("{}, and {}: ask for less, or have the quota raised", quota_text(owner, *limit), asks);
  };
  const auto& request = key.request;
  if (key.is_group() || !wants_memory_alone(request))
    return charge > most
               ? text(fmt::format("this is for {}{}", is_by_memory(key) ? "at least " : "", to_string(Share{charge})))
               : std::string{};
  // The share that goes with memory depends on the device.
  Lens lens{Lens::Amount::all, {}, true};
  if (!fits_somewhere(table_, request, lens))
    return {};
  lens.limit_share(most);
  if (fits_somewhere(table_, request, lens))
    return {};
  return text(fmt::format("this is for {}, which take more of each device that has them",
                          ledger_detail::describe_bytes(request.memory_bytes)));
}

std::string Ledger::why_over_quota(const ShapeKey& key, std::int64_t charge) const {
  const auto& owner = key.request.owner;
  const auto limit = quotas_.limit_of(owner);
  if (!limit)
    return {};
  const auto room = quotas_.room_of(owner);
  if (!quotas_.is_complete())
    return least_charge(key) == 0
               ? std::string{}
               : quota_text(owner, *limit) + ", and what it holds is known when nodes have had time to come back";
  const auto text = [&](std::string_view asks) {
    return fmt::format("{}, it holds {}, and {}", quota_text(owner, *limit), to_string(quotas_.used_by(owner)), asks);
  };
  const bool by_memory = is_by_memory(key);
  if (charge > room)
    return text(fmt::format("this is for {}{} more", by_memory ? "at least " : "", to_string(Share{charge})));
  if (!by_memory || key.is_group())
    return {};
  // It would fit now but for the quota.
  Lens lens;
  if (!fits_somewhere(table_, key.request, lens))
    return {};
  lens.limit_share(room);
  return fits_somewhere(table_, key.request, lens)
             ? std::string{}
             : text("the memory that this asks for takes more than is left where it is free");
}

std::string Ledger::within_quota(const ShapeKey& key) const {
  if (!quotas_.limit_of(key.request.owner) || !is_by_memory(key))
    return {};
  return fmt::format(", within the {} that the quota of \"{}\" has left",
                     to_string(Share{quotas_.room_of(key.request.owner)}), key.request.owner);
}

bool Ledger::waits_in_vain(RequestId id) const {
  return lacks_nodes_or_quota(queue_.find(id));
}

bool Ledger::waits_in_vain(GroupId id) const {
  return lacks_nodes_or_quota(entry_of(id));
}

std::optional<std::string> Ledger::over_quota(RequestId id) const {
  return owner_without_room(queue_.find(id), quotas_);
}

std::optional<std::string> Ledger::over_quota(GroupId id) const {
  return owner_without_room(entry_of(id), quotas_);
}

const Ledger::Entry* Ledger::entry_of(GroupId id) const {
  const auto group = groups_.find(id);
  return group == groups_.end() ? nullptr : queue_.find(group->second.key);
}

// -- changes ---------------------------------------------------------------------------------------

void Ledger::reshape() {
  std::vector<std::pair<QueueKey, ShapeKey>> moving;
  for (const auto& [at, entry] : queue_.entries()) {
    const auto& key = *entry.shape->key;
    auto owner = key.request.group ? std::string{} : quotas_.bounded(entry.owner_name());
    if (owner == key.request.owner)
      continue;
    auto other = key;
    other.request.owner = std::move(owner);
    moving.emplace_back(at, std::move(other));
  }
  for (auto& [at, key] : moving) {
    const auto prospect = queue_.find(at)->shape->prospect;
    queue_.move(at, queue_.shape_of(std::move(key), prospect));
  }
  drop_reasons();
}

void Ledger::drop_reasons() {
  for (auto& [key, shape] : queue_.shapes())
    shape.reason.reset();
}

Result<Ledger::Events> Ledger::set_quota(const std::string& owner, std::optional<Share> limit, TimePoint now) {
  GPUACTORS_TRY(validate_quota(owner, limit));
  if (!limit && !quotas_.names(owner))
    return fail(Errc::not_found, fmt::format("no quota is set for \"{}\"", owner));
  Events events;
  pass_time(now, events);
  quotas_.set(owner, limit);
  reshape();
  look_at_all();
  pump(events);
  return events;
}

std::vector<QuotaView> Ledger::quotas() const {
  std::map<std::string, QuotaView, std::less<>> views;
  for (const auto& [owner, limit] : quotas_.limits())
    views[owner] = {owner, {}, limit, false};
  for (const auto& [owner, used] : quotas_.used()) {
    auto& view = views[owner];
    view = {owner, used, quotas_.limit_of(owner), !quotas_.names(owner) && quotas_.limit_of(owner)};
  }
  std::vector<QuotaView> result;
  result.reserve(views.size());
  for (auto& [owner, view] : views)
    result.push_back(std::move(view));
  return result;
}

} // namespace gpuactors
