// Lending: a task that waits for its children lends them its resources, so that it cannot deadlock on itself.
//
// A lease with lent parts returns to its source only when its holder and all borrowers are gone.
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/impl.hpp>

namespace gpuactors {

using ledger_detail::place_in;

const Ledger::Impl::Record* Ledger::Impl::live(LeaseId id) const {
  const auto it = records_.find(id);
  return it == records_.end() || it->second.ended ? nullptr : &it->second;
}

Ledger::Impl::Pool& Ledger::Impl::lent_pool(Record& record) {
  if (!record.lent) {
    const auto& lease = record.lease;
    record.lent = std::make_unique<Pool>(
        ledger_detail::make_pool(++next_pool_, *record.source->node, lease.devices, lease.cpus, lease.resources));
  }
  return *record.lent;
}

// Finds room in the parent's lease or in that of one of its ancestors, which wait for it.
std::optional<Ledger::Impl::Found> Ledger::Impl::borrow(const ResourceRequest& request, const Lens& lens) {
  for (auto id = request.parent; live(id) != nullptr;) {
    auto& record = records_.at(id);
    auto& pool = lent_pool(record);
    if (auto devices = place_in(pool, request, lens))
      return Found{{&pool, std::move(*devices)}, id, 0};
    id = record.lease.asked_by;
  }
  return std::nullopt;
}

// Returns whether the request would fit into what an ancestor lends if other borrowers returned their parts: `lens`
// shows total amounts.
bool Ledger::Impl::could_borrow(const ResourceRequest& request, const Lens& lens) {
  for (auto id = request.parent; live(id) != nullptr;) {
    auto& record = records_.at(id);
    if (place_in(lent_pool(record), request, lens))
      return true;
    id = record.lease.asked_by;
  }
  return false;
}

// Visits, each once, what stays taken as long as `parent` and its ancestors hold their leases: leases, and bundles with
// their groups.
template <class Leases, class Bundles>
void Ledger::Impl::for_each_held_by_ancestors(LeaseId parent, Leases visit_lease, Bundles visit_bundle) const {
  std::set<LeaseId> seen;
  std::set<GroupId> groups;
  for (const auto* ancestor = live(parent); ancestor != nullptr; ancestor = live(ancestor->lease.asked_by))
    for (const auto* record = ancestor; record != nullptr;) {
      const auto& lease = record->lease;
      if (!seen.insert(lease.id).second)
        break;
      visit_lease(*record);
      // Removing its group would end the lease, so all bundles of the group count as taken too.
      if (lease.group && groups.insert(lease.group).second)
        for (const auto& bundle : groups_.at(lease.group).bundles)
          visit_bundle(groups_.at(lease.group), bundle);
      const auto lender = records_.find(lease.parent);
      record = lender == records_.end() ? nullptr : &lender->second;
    }
}

// Returns the amounts, by pool, that stay taken as long as `parent` and its ancestors hold their leases.
std::vector<Ledger::Impl::Hold> Ledger::Impl::ancestor_holds(LeaseId parent) const {
  std::vector<Hold> holds;
  for_each_held_by_ancestors(
      parent,
      [&](const Record& record) {
        const auto& lease = record.lease;
        holds.push_back({record.source, &lease.devices, lease.cpus, &lease.resources});
      },
      [&](const Group&, const Bundle& bundle) {
        holds.push_back({bundle.source, &bundle.grant.devices, bundle.grant.cpus, &bundle.grant.resources});
      });
  return holds;
}

// Returns how much of that counts in the owner's quota.
Share Ledger::Impl::ancestor_charge(LeaseId parent, const std::string& owner) const {
  Share sum;
  for_each_held_by_ancestors(
      parent,
      [&](const Record& record) {
        if (counts(record.lease) && record.lease.owner == owner)
          sum += ledger_detail::sum_of(record.lease.devices);
      },
      [&](const Group& group, const Bundle& bundle) {
        if (group.request.owner == owner)
          sum += ledger_detail::sum_of(bundle.grant.devices);
      });
  return sum;
}

void Ledger::Impl::end_lease(Records::iterator it) {
  auto& [id, record] = *it;
  GPUACTORS_LEDGER_CHECK(!record.ended, "a lease was given back twice");
  record.ended = true;
  holders_.erase(record.lease.request);
  orphan(id);
  settle(it);
}

// Gives back the resources of ended leases without borrowers, up the chain of lenders.
void Ledger::Impl::settle(Records::iterator it) {
  while (it->second.ended && it->second.lent_out == 0) {
    auto& record = it->second;
    GPUACTORS_LEDGER_CHECK(!record.lent || record.lent->is_untouched(), "a lease went back while parts of it are lent");
    table_.give_back(*record.source, record.lease.devices, record.lease.cpus, record.lease.resources);
    if (counts(record.lease))
      discharge(record.lease.owner, record.lease.devices);
    const auto lender = record.lease.parent;
    if (!lender) {
      note_freed(*record.source, record.lease.group);
      if (!claims_.empty())
        freed_.push_back(record.source);
    }
    if (record.lease.group) {
      auto& group = groups_.at(record.lease.group);
      group.leases.erase(it->first);
      if (group.request.shrinks)
        left_.emplace(record.lease.group, record.lease.bundle);
    }
    auto rest = record.holder_stays ? std::optional{std::move(record.lease)} : std::nullopt;
    records_.erase(it);
    if (rest)
      keep_rest(std::move(*rest));
    if (!lender)
      return;
    it = records_.find(lender);
    GPUACTORS_LEDGER_CHECK(it != records_.end() && it->second.lent_out > 0, "a lender has gone before its borrowers");
    --it->second.lent_out;
  }
}

void Ledger::Impl::orphan(LeaseId parent) {
  if (waiting_children_.empty())
    return;
  // Descendants further down may have counted on a loan from this lease.
  recheck_due_ = true;
  if (waiting_children_.erase(parent) == 0)
    return;
  std::vector<QueueKey> moving;
  for (const auto& [kind, shape] : queue_.shapes())
    if (const auto& key = kind; key.request.parent == parent)
      shape.ages.for_each([&](std::uint64_t age) { moving.push_back({key.request.priority, age}); });
  for (const auto at : moving) {
    auto key = *queue_.find(at)->shape->key;
    key.request.parent = LeaseId{};
    queue_.move(at, queue_.shape_of(std::move(key), Prospect{}));
  }
}

void Ledger::Impl::add_descendants(std::set<LeaseId>& ids) const {
  // Borrowers are younger than their lenders, so one pass in the order of ids finds them all.
  for (const auto& [id, record] : records_)
    if (record.lease.parent && ids.count(record.lease.parent) > 0)
      ids.insert(id);
}

void Ledger::Impl::lose(const std::set<LeaseId>& ids, const std::string& reason, Events& events) {
  for (const auto id : ids)
    if (const auto* record = live(id))
      events.push_back(
          Event{Event::Kind::lost, record->lease.request, {}, record->lease, {}, Errc::lease_revoked, reason});
  // In reverse order of ids, so borrowers end before lenders.
  for (auto id = ids.rbegin(); id != ids.rend(); ++id)
    if (const auto it = records_.find(*id); it != records_.end() && !it->second.ended)
      end_lease(it);
}

} // namespace gpuactors
