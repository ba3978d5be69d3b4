#include <gpuactors/agent/core/instance_table.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/wire/lease_end.hpp>
#include <gpuactors/wire/resource_units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace gpuactors {

namespace {

bool has_units(const std::string& name) {
  const auto* kind = find_accelerator_kind(name);
  return kind != nullptr && !kind->fractions;
}

} // namespace

InstanceTable::InstanceTable(const std::map<std::string, Share>& node_resources) {
  for (const auto& [name, amount] : node_resources)
    if (has_units(name)) {
      auto& units = free_[name];
      units.resize(static_cast<std::size_t>(amount.units() / Share::one));
      std::iota(units.begin(), units.end(), 0);
    }
}

Instances& InstanceTable::pool_of(LeaseId source) {
  const auto it = holdings_.find(source);
  return it == holdings_.end() ? free_ : it->second.unlent;
}

Result<Instances> InstanceTable::take(LeaseId lease, LeaseId parent, const std::map<std::string, Share>& resources) {
  auto& pool = pool_of(parent);
  Instances taken;
  for (const auto& [name, amount] : resources) {
    if (!has_units(name))
      continue;
    auto& units = pool[name];
    const auto wanted = static_cast<std::size_t>(amount.units() / Share::one);
    if (units.size() < wanted) {
      for (const auto& [other, back] : taken)
        pool[other].insert(pool[other].begin(), back.begin(), back.end());
      return fail(Errc::internal, fmt::format("lease {} was granted {} {}, and {} are left on its node", lease.value(),
                                              wanted, name, units.size()));
    }
    const auto end = units.begin() + static_cast<std::ptrdiff_t>(wanted);
    taken[name].assign(units.begin(), end);
    units.erase(units.begin(), end);
  }
  if (!taken.empty())
    holdings_[lease] = Holding{holdings_.count(parent) > 0 ? parent : LeaseId{}, taken};
  return taken;
}

void InstanceTable::give_back(LeaseId lease) {
  const auto node = holdings_.extract(lease);
  if (node.empty())
    return;
  const auto& holding = node.mapped();
  auto& pool = pool_of(holding.source);
  for (const auto& [name, units] : holding.unlent) {
    auto& back = pool[name];
    back.insert(back.end(), units.begin(), units.end());
    std::sort(back.begin(), back.end());
  }
  for (auto& [id, other] : holdings_)
    if (other.source == lease)
      other.source = holding.source;
}

std::optional<v1::LeaseEnded> take_units(InstanceTable& instances, v1::Lease& lease) {
  const auto taken = instances.take(LeaseId{lease.id()}, LeaseId{lease.parent()}, from_wire(lease.resource_units()));
  if (!taken) // nothing was started, so the lease is reported as ended at once
    return lease_end(lease.id(), lease.epoch(), taken.error());
  for (const auto& [name, ids] : *taken)
    (*lease.mutable_units())[name].mutable_ids()->Add(ids.begin(), ids.end());
  return std::nullopt;
}

} // namespace gpuactors
