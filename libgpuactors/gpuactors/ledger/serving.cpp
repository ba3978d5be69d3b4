// Serving the queue: grants freed resources to waiting requests, and refuses those that can no longer be satisfied.
#include <gpuactors/ledger/ledger.hpp>

#include <algorithm>
#include <utility>

namespace gpuactors {

void Ledger::pump(Events& events) {
  if (paused_)
    return;
  // What uses up a quota ends the reservation of another request of that owner, whose place others can use then. What a
  // group is granted may be what a child of one of its holders counted on.
  do {
    quota_due_ = false;
    serve_queue(events);
  } while (quota_due_ || recheck_due_);
}

// Grants the requests that fit, in the order of the queue. One pass suffices because a grant only takes resources. The
// exception is a group's grant, which makes room for requests waiting for that group anywhere in the queue: then the
// pass is repeated.
void Ledger::serve_queue(Events& events) {
  while (recheck_due_ || !left_bundles_.empty() || !shrunk_.empty()) {
    shrink_groups(events);
    if (std::exchange(recheck_due_, false))
      recheck({}, events);
  }
  sync_claims();
  move_reservations();
  bool again = queue_.wakes().size() > 0;
  while (again) {
    again = false;
    std::optional<QueueKey> last;
    while (true) {
      // All reservations that bind `last` also bind the shapes behind it, so this lens skips no shape that could be
      // served.
      const auto lens = last ? binding(*last) : Lens{};
      const auto [key, shape] = queue_.wakes().next(last ? &*last : nullptr, table_, freed_, grown_, lens, quotas_);
      if (shape == nullptr)
        break;
      const bool is_group = shape->key->is_group();
      again |= grant_head(key, *shape, events) && is_group;
      last = key;
    }
  }
  freed_.clear();
  grown_.clear();
}

void Ledger::note_freed(Pool& pool, GroupId group) {
  // An empty queue has nobody to wake.
  if (!queue_.entries().empty())
    freed_.emplace(&pool, group);
}

void Ledger::note_given_back(Pool& pool, GroupId group) {
  note_freed(pool, group);
  if (!claims_.empty())
    given_back_.push_back(&pool);
}

void Ledger::forget_pool(const Pool& pool) {
  freed_.erase(&pool);
  std::erase(given_back_, &pool);
}

void Ledger::look_at_all() {
  recheck_due_ = !queue_.entries().empty();
  for (auto& [name, node] : table_.nodes())
    note_freed(node.pool, {});
}

bool Ledger::grant_head(QueueKey key, Shape& shape, Events& events) {
  if (shape.key->is_group()) {
    const auto id = queue_.find(key)->group;
    return try_grant_group(id, groups_.at(id), events);
  }
  auto found = find_place(shape.key->request, key);
  if (!found)
    return false;
  // Copied, because the shape is deleted with its last entry.
  auto request = shape.key->request;
  auto entry = leave_queue(key);
  request.owner = entry.owner_name();
  grant(entry.request, std::move(entry.name), request, key, std::move(*found), events);
  return true;
}

Ledger::Entry Ledger::leave_queue(QueueKey key) {
  const auto& request = queue_.find(key)->shape->key->request;
  if (const auto it = waiting_children_.find(request.parent); it != waiting_children_.end() && --it->second == 0)
    waiting_children_.erase(it);
  if (const auto it = groups_.find(request.group); it != groups_.end())
    --it->second.waiting;
  if (const auto it = claims_.find(key.priority); it != claims_.end() && it->second.holder == key) {
    end_reservation(it->second);
    claims_.erase(it);
  }
  return queue_.remove(key);
}

void Ledger::refuse_entry(QueueKey key, Event::Kind kind, Errc code, std::string reason, Events& events) {
  const auto entry = leave_queue(key);
  if (!entry.group)
    return events.push_back(Event::about(entry.request, kind, code, std::move(reason)));
  const auto why = kind == Event::Kind::released ? std::string{"its placement group was removed"}
                                                 : "its placement group could not be placed: " + reason;
  events.push_back(Event::about(entry.group, kind, code, std::move(reason)));
  end_group(groups_.find(entry.group), why, events);
}

void Ledger::recheck(GroupId group, Events& events) {
  std::vector<QueueKey> in_vain;
  for (auto& [key, shape] : queue_.shapes()) {
    if (group && key.request.group != group)
      continue;
    const auto prospect = prospect_of(key);
    queue_.set_prospect(shape, prospect);
    if (prospect.needs_new_node() && !expecting_)
      shape.for_each_entry([&](QueueKey at) {
        if (!queue_.find(at)->wait_for_nodes)
          in_vain.push_back(at);
      });
  }
  std::sort(in_vain.begin(), in_vain.end());
  bool ended_group = false;
  // Found once for all that ask for the same.
  std::map<const Shape*, Error> errors;
  for (const auto key : in_vain) {
    const auto* entry = queue_.find(key);
    // The end of a group also ended leases, which may make this request feasible.
    if (entry == nullptr || (ended_group && !prospect_of(*entry->shape->key).needs_new_node()))
      continue;
    const bool ends_group = static_cast<bool>(entry->group);
    auto error = errors.find(entry->shape);
    if (error == errors.end())
      error = errors.emplace(entry->shape, infeasible(*entry->shape->key)).first;
    refuse_entry(key, Event::Kind::infeasible, error->second.code(), error->second.message(), events);
    ended_group |= ends_group;
    if (ends_group)
      errors.clear();
  }
}

} // namespace gpuactors
