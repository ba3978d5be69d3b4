// Lending: a task that waits for its children lends them its resources, so that it cannot deadlock on itself.
//
// A lease with lent parts returns to its source only when its holder and all borrowers are gone.
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/ledger.hpp>

#include <algorithm>

namespace gpuactors {

using ledger_detail::counts_in_quota;
using ledger_detail::place_in;
using ledger_detail::sum_of;

const Ledger::LeaseRecord* Ledger::live(LeaseId id) const {
  const auto it = records_.find(id);
  return it == records_.end() || it->second.ended ? nullptr : &it->second;
}

Ledger::Pool& Ledger::lent_pool(LeaseRecord& record) {
  if (!record.lent) {
    const auto& lease = record.lease;
    record.lent = std::make_unique<Pool>(
        ledger_detail::make_pool(++last_pool_, *record.source->node, lease.devices, lease.cpus, lease.resources));
  }
  return *record.lent;
}

std::optional<Ledger::Found> Ledger::find_loan(const ResourceRequest& request, const Lens& lens) {
  for (auto id = request.parent; live(id) != nullptr;) {
    auto& record = records_.at(id);
    auto& pool = lent_pool(record);
    if (auto devices = place_in(pool, request, lens))
      return Found{{&pool, std::move(*devices)}, id, 0};
    id = record.lease.asked_by;
  }
  return std::nullopt;
}

// Visits, each once, what stays taken as long as `parent` and its ancestors hold their leases: leases, and bundles with
// their groups.
template <class Leases, class Bundles>
void Ledger::for_each_held_by_ancestors(LeaseId parent, Leases visit_lease, Bundles visit_bundle) const {
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

std::vector<Ledger::Hold> Ledger::ancestor_holds(LeaseId parent) const {
  std::vector<Hold> holds;
  for_each_held_by_ancestors(
      parent,
      [&](const LeaseRecord& record) {
        const auto& lease = record.lease;
        holds.push_back({record.source, &lease.devices, lease.cpus, &lease.resources});
      },
      [&](const GroupRecord&, const Bundle& bundle) {
        holds.push_back({bundle.source, &bundle.grant.devices, bundle.grant.cpus, &bundle.grant.resources});
      });
  return holds;
}

Share Ledger::ancestor_charge(LeaseId parent, const std::string& owner) const {
  Share sum;
  for_each_held_by_ancestors(
      parent,
      [&](const LeaseRecord& record) {
        if (counts_in_quota(record.lease) && record.lease.owner == owner)
          sum += sum_of(record.lease.devices);
      },
      [&](const GroupRecord& group, const Bundle& bundle) {
        if (group.request.owner == owner)
          sum += sum_of(bundle.grant.devices);
      });
  return sum;
}

void Ledger::end_lease(LeaseRecords::iterator it) {
  GPUACTORS_LEDGER_CHECK(!it->second.ended, "a lease was given back twice");
  it->second.ended = true;
  holders_.erase(it->second.lease.request);
  orphan(it->first);
  while (it->second.ended && it->second.borrowers == 0) {
    const auto lender = give_back(it);
    if (!lender)
      return;
    it = records_.find(lender);
    GPUACTORS_LEDGER_CHECK(it != records_.end() && it->second.borrowers > 0, "a lender has gone before its borrowers");
    --it->second.borrowers;
  }
}

LeaseId Ledger::give_back(LeaseRecords::iterator it) {
  auto& [id, record] = *it;
  auto& lease = record.lease;
  GPUACTORS_LEDGER_CHECK(!record.lent || record.lent->is_untouched(), "a lease went back while parts of it are lent");
  table_.give_back(*record.source, lease.devices, lease.cpus, lease.resources);
  if (counts_in_quota(lease))
    discharge(lease.owner, lease.devices);
  const auto lender = lease.parent;
  if (!lender)
    note_given_back(*record.source, lease.group);
  if (lease.group) {
    auto& group = groups_.at(lease.group);
    group.leases.erase(id);
    if (group.request.shrinks)
      left_bundles_.emplace(lease.group, lease.bundle);
  }
  const auto ended = records_.extract(it);
  const bool stays = ended.mapped().holder_stays;
  if (stays)
    keep_rest(ended.mapped().lease, lender);
  if (ended.mapped().lent && !remains_.empty())
    keep_rests_within(ended.mapped().lease, stays);
  return lender;
}

// What the child can get depends on the leases of those who wait for it, and on those that lent to them.
bool Ledger::counts_on(LeaseId parent, LeaseId lease) const {
  for (auto id = parent; id;) {
    const auto ancestor = records_.find(id);
    if (ancestor == records_.end() || (ancestor->second.ended && id != lease))
      return false;
    for (auto lender = ancestor; lender != records_.end(); lender = records_.find(lender->second.lease.parent))
      if (lender->first == lease)
        return true;
    id = ancestor->second.lease.asked_by;
  }
  return false;
}

void Ledger::orphan(LeaseId parent) {
  // Descendants further down may have counted on a loan from this lease.
  recheck_due_ = recheck_due_ || std::any_of(waiting_children_.begin(), waiting_children_.end(), [&](const auto& item) {
                   return counts_on(item.first, parent);
                 });
  if (waiting_children_.erase(parent) == 0)
    return;
  std::vector<QueueKey> moving;
  for (const auto& [key, shape] : queue_.shapes())
    if (key.request.parent == parent)
      shape.for_each_entry([&](QueueKey at) { moving.push_back(at); });
  for (const auto at : moving) {
    auto key = *queue_.find(at)->shape->key;
    key.request.parent = LeaseId{};
    queue_.move(at, queue_.shape_of(std::move(key), Prospect{}));
  }
}

void Ledger::add_descendants(std::set<LeaseId>& ids) const {
  // Borrowers are younger than their lenders, so one pass in the order of ids finds them all.
  for (const auto& [id, record] : records_)
    if (record.lease.parent && ids.count(record.lease.parent) > 0)
      ids.insert(id);
}

void Ledger::lose(const std::set<LeaseId>& ids, const std::string& reason, Events& events) {
  for (const auto id : ids)
    if (const auto* record = live(id))
      events.push_back(Event::about(record->lease, Event::Kind::lost, Errc::lease_revoked, reason));
  // In reverse order of ids, so borrowers end before lenders.
  for (auto id = ids.rbegin(); id != ids.rend(); ++id)
    if (const auto it = records_.find(*id); it != records_.end() && !it->second.ended)
      end_lease(it);
}

} // namespace gpuactors
