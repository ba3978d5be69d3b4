// The broker and quotas: whose quota a request counts in, and quotas that are set, kept and shown.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/broker/core/broker_core.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace gpuactors {

void BrokerCore::set_owner(v1::ResourceRequest& request, const Caller& caller) const {
  // Who administers is not bounded. Workers, which do too, say for whom they ask: the owner of the holder's lease.
  if (caller.administers)
    return;
  request.set_quota_owner(caller.name);
  const auto* parent = ledger_.find_lease(LeaseId{request.parent_lease()});
  if (parent == nullptr || parent->owner != caller.name)
    request.clear_parent_lease();
}

Result<void> BrokerCore::check_quotas(const BrokerOptions& options) {
  // Without any, a section of the store that cannot be read is an event, as each of them is.
  if (options.quotas.empty())
    return {};
  std::set<std::string> owners;
  for (const auto& [owner, limit] : options.quotas)
    owners.insert(owner);
  const auto given = owners.size();
  if (options.store != nullptr) {
    GPUACTORS_LET(stored, options.store->load(StateSection::quotas));
    for (const auto& entry : stored)
      if (const auto* owner = std::get_if<std::string>(&entry.key))
        owners.insert(*owner);
  }
  if (owners.size() > limits::quotas)
    return fail(Errc::invalid_argument,
                fmt::format("{} quotas are given, {} with those of other names in the store: at most {} are allowed",
                            given, owners.size(), limits::quotas));
  return {};
}

Result<void> BrokerCore::set_quota(const v1::SetQuota& message) {
  const auto& owner = message.owner();
  const auto limit = message.has_gpu_units() ? std::optional{Share{message.gpu_units()}} : std::nullopt;
  return change_quota(owner, limit);
}

Result<void> BrokerCore::change_quota(const std::string& owner, std::optional<Share> limit) {
  std::vector<std::string> known;
  for (const auto& quota : ledger_.quotas())
    if (quota.limit && !quota.by_default)
      known.push_back(quota.owner);
  const bool is_known = std::find(known.begin(), known.end(), owner) != known.end();
  if (!limit && !is_known)
    return fail(Errc::not_found, fmt::format("no quota is set for \"{}\"{}", owner, did_you_mean(owner, known)));
  if (limit && !is_known && known.size() >= limits::quotas)
    return fail(Errc::invalid_argument, fmt::format("{} quotas are set, more are not taken: set one for * in place of "
                                                    "those that are alike",
                                                    known.size()));
  auto events = ledger_.set_quota(owner, limit, world_.now());
  if (!events)
    return fail(events.error());
  log_.add(EventKind::quota_set, owner, limit ? fmt::format("{} of devices", to_string(*limit)) : "removed");
  if (limit) {
    v1::StoredQuota stored;
    stored.set_gpu_units(limit->units());
    keeper_.put(StateSection::quotas, owner, stored.SerializeAsString());
  } else {
    keeper_.erase(StateSection::quotas, owner);
  }
  apply(*events);
  return {};
}

Turns::OverQuotas BrokerCore::over_quotas() const {
  const auto quotas = ledger_.quotas();
  Turns::OverQuotas result;
  if (std::none_of(quotas.begin(), quotas.end(), [](const QuotaView& quota) { return quota.limit.has_value(); }))
    return result;
  const auto note = [&](auto id, const std::string& key) {
    const auto owner = ledger_.over_quota(id);
    if (!owner)
      return;
    const auto [it, added] = result.try_emplace(*owner, Turns::OverQuota{key, id.value()});
    if (!added && it->second.key != key)
      it->second.key.clear();
  };
  for (const auto& [id, task] : task_requests_)
    note(id, task.key);
  for (const auto& [id, actor] : actors_.waiting())
    note(id, {});
  for (const auto& [id, group] : groups_)
    note(id, {});
  return result;
}

void BrokerCore::make_room_for(const std::string& owner, const std::string& key) {
  for (const auto id : kept_.others_of(owner, key)) {
    const auto* held = ledger_.find_lease(id);
    if (held == nullptr)
      continue;
    // What is drawn from a group counts as the group's, which keeps it, unless it shrinks.
    const auto group = groups_.find(held->group);
    if (!held->group || (group != groups_.end() && group->second.request.shrinks()))
      reclaim(id, task_leases_.at(id));
  }
}

void BrokerCore::add_quotas(v1::ClusterState& state) const {
  std::size_t by_default = 0;
  for (const auto& quota : ledger_.quotas()) {
    // Those that are set are bounded in number.
    const bool set = quota.limit && !quota.by_default;
    if (!set && ++by_default > limits::quotas)
      continue;
    auto* entry = state.add_quotas();
    entry->set_owner(quota.owner);
    entry->set_used_units(quota.used.units());
    if (quota.limit)
      entry->set_gpu_units(quota.limit->units());
    entry->set_by_default(quota.by_default);
  }
}

} // namespace gpuactors
