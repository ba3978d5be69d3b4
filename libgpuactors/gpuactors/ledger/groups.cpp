// Placement groups: bundles that are set aside together, and from which requests that name them draw.
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/group_placement.hpp>
#include <gpuactors/ledger/ledger.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gpuactors {

using ledger_detail::least_charge;
using ledger_detail::place_group;

namespace {

Event granted(GroupId id, const ledger_detail::GroupRecord& group) {
  auto event = Event::about(id, Event::Kind::granted);
  for (const auto& bundle : group.bundles)
    event.bundles.push_back(bundle.grant);
  return event;
}

} // namespace

Ledger::Events Ledger::submit_group(GroupId id, GroupRequest request, TimePoint now) {
  Events earlier;
  pass_time(now, earlier);
  Events events;
  const auto valid = validate(request);
  if (!id)
    events.push_back(
        Event::about(id, Event::Kind::rejected, Errc::invalid_argument, "a group needs an id other than 0"));
  else if (!valid)
    events.push_back(Event::about(id, Event::Kind::rejected, valid.error().code(), valid.error().message()));
  else if (groups_.count(id) > 0)
    events.push_back(Event::about(id, Event::Kind::rejected, Errc::already_exists,
                                  fmt::format("placement group {} is already there", id.value())));
  else
    answer_group(id, request, events);
  if (quota_due_)
    pump(events);
  return answer_first(std::move(events), std::move(earlier));
}

// Besides, a bundle's own priority, number and owner do not count.
Ledger::ShapeKey Ledger::shape_key_of(GroupId id, const GroupRecord& group) const {
  ShapeKey key{{}, {}, group.request.strategy, group.bundles.empty() ? GroupId{} : id};
  key.request.priority = group.request.priority;
  key.request.owner = quotas_.bounded(group.request.owner);
  for (int number = 0; number < group.bundle_count(); ++number) {
    if (!group.lacks(number))
      continue;
    auto& bundle = key.bundles.emplace_back(ledger_detail::counting_part(group.asked(number)));
    bundle.priority = 0;
    bundle.bundle = 0;
    bundle.owner.clear();
  }
  return key;
}

std::vector<Ledger::Hold> Ledger::kept_holds(GroupId keeper) const {
  std::vector<Hold> holds;
  if (keeper)
    for (const auto& bundle : groups_.at(keeper).bundles)
      holds.push_back({bundle.source, &bundle.grant.devices, bundle.grant.cpus, &bundle.grant.resources});
  return holds;
}

std::set<const Ledger::Node*> Ledger::kept_nodes(GroupId keeper) const {
  std::set<const Node*> nodes;
  if (keeper)
    for (const auto& bundle : groups_.at(keeper).bundles)
      nodes.insert(bundle.source->node);
  return nodes;
}

void Ledger::answer_group(GroupId id, GroupRequest& request, Events& events) {
  auto& group = groups_[id];
  group.key = queue_.next_key(request.priority);
  group.request = std::move(request);
  if (try_grant_group(id, group, events))
    return;
  const auto key = shape_key_of(id, group);
  const auto& asked = group.request;
  const auto* known = queue_.find_shape(key);
  const auto prospect = known != nullptr ? known->prospect : prospect_of(key);
  const bool may_queue = asked.queue && asked.queue_timeout != Duration::zero();
  if (auto refusal = refuse_to_queue(key, prospect, group.key, asked.wait_for_nodes, may_queue)) {
    groups_.erase(id);
    refusal->group = id;
    events.push_back(std::move(*refusal));
    return;
  }
  enqueue_group(id, group, prospect);
  events.push_back(Event::about(id, Event::Kind::pending, Errc::none, why_pending(key, prospect, group.key)));
}

void Ledger::enqueue_group(GroupId id, GroupRecord& group, Prospect prospect) {
  const auto& asked = group.request;
  // A placed group waits without a deadline: the lack of a place for a lost bundle must not end the work in the others.
  const auto deadline = asked.queue_timeout && !group.placed ? deadline_after(now_, *asked.queue_timeout) : never;
  auto& shape = queue_.shape_of(shape_key_of(id, group), prospect);
  queue_.add(Entry{group.key,
                   {},
                   id,
                   asked.name,
                   Entry::owned_by(asked.owner),
                   now_,
                   deadline,
                   asked.wait_for_nodes || group.placed,
                   &shape});
}

bool Ledger::try_grant_group(GroupId id, GroupRecord& group, Events& events) {
  const auto wanted = shape_key_of(id, group);
  const auto room = quotas_.room_of(wanted.request.owner);
  if (least_charge(wanted) > room)
    return false;
  auto lens = binding(group.key);
  lens.limit_share(room);
  auto places = place_group(table_, wanted.bundles, wanted.strategy, lens, kept_nodes(wanted.keeper));
  if (!places || ledger_detail::charge_of(*places) > room)
    return false;
  if (queue_.find(group.key) != nullptr)
    leave_queue(group.key);
  auto next = places->begin();
  for (int number = 0; number < group.bundle_count(); ++number) {
    if (!group.lacks(number))
      continue;
    const auto& asked = group.asked(number);
    const auto& place = *next++;
    set_aside(group, {number, place.pool->node->spec.name, place.devices, asked.cpus, asked.resources}, *place.pool);
  }
  group.placed = true;
  events.push_back(granted(id, group));
  // A child may have counted on what it holds now, which an ancestor that waits for the child does not give back.
  recheck_due_ = recheck_due_ || !waiting_children_.empty();
  if (group.waiting > 0) {
    for (const auto& bundle : group.bundles)
      note_freed(*bundle.pool, id);
    recheck(id, events);
  }
  if (queue_.wakes().size() > 0)
    for (const auto& place : *places)
      count_pass(group.key, place);
  return true;
}

void Ledger::set_aside(GroupRecord& group, BundleGrant grant, Pool& source) {
  table_.take(source, grant.devices, grant.cpus, grant.resources);
  charge(group.request.owner, grant.devices);
  auto pool = std::make_unique<Pool>(
      ledger_detail::make_pool(++last_pool_, *source.node, grant.devices, grant.cpus, grant.resources));
  const auto at = std::find_if(group.bundles.begin(), group.bundles.end(),
                               [&](const Bundle& bundle) { return bundle.grant.bundle > grant.bundle; });
  group.bundles.insert(at, Bundle{std::move(grant), &source, std::move(pool)});
}

Result<Ledger::Events> Ledger::release_group(GroupId id, TimePoint now) {
  const auto it = groups_.find(id);
  if (it == groups_.end())
    return fail(Errc::not_found, fmt::format("there is no placement group {}", id.value()));
  Events events;
  // One that shrinks, and of which nothing is left, is not in the queue.
  if (it->second.bundles.empty() && queue_.find(it->second.key) != nullptr) {
    refuse_entry(it->second.key, Event::Kind::released, Errc::cancelled, "withdrawn while it waited", events);
  } else {
    if (it->second.lacks_any())
      leave_queue(it->second.key);
    events.push_back(Event::about(id, Event::Kind::released));
    end_group(it, "its placement group was removed", events);
  }
  pass_time(now, events);
  pump(events);
  return events;
}

void Ledger::end_group(GroupRecords::iterator it, const std::string& reason, Events& events) {
  auto& [id, group] = *it;
  if (!group.leases.empty()) {
    auto ids = group.leases;
    add_descendants(ids);
    lose(ids, reason, events);
  }
  refuse_waiting_in(id, nullptr, reason, events);
  for (auto& bundle : group.bundles)
    give_back(group, bundle);
  groups_.erase(it);
}

void Ledger::refuse_waiting_in(GroupId id, const std::set<int>* numbers, const std::string& reason, Events& events) {
  if (groups_.at(id).waiting == 0)
    return;
  std::set<QueueKey> waiting;
  for (const auto& [key, shape] : queue_.shapes())
    if (key.request.group == id && (numbers == nullptr || numbers->count(key.request.bundle) > 0))
      shape.for_each_entry([&](QueueKey at) { waiting.insert(at); });
  for (const auto key : waiting)
    refuse_entry(key, Event::Kind::rejected, Errc::not_found, reason, events);
}

void Ledger::give_back(const GroupRecord& group, Bundle& bundle) {
  drop_reservations_in(*bundle.pool);
  GPUACTORS_LEDGER_CHECK(bundle.pool->is_untouched(), "a bundle was removed while something in it is held");
  table_.give_back(*bundle.source, bundle.grant.devices, bundle.grant.cpus, bundle.grant.resources);
  discharge(group.request.owner, bundle.grant.devices);
  forget_pool(*bundle.pool);
  note_given_back(*bundle.source, {});
}

// -- lost bundles ----------------------------------------------------------------------------------

void Ledger::lose_bundles(GroupId id, const std::set<int>& numbers, const std::string& reason, Events& events) {
  auto& group = groups_.at(id);
  auto ids = leases_in(group, numbers);
  add_descendants(ids);
  lose(ids, reason, events);
  // The group may already wait for other lost bundles.
  if (queue_.find(group.key) != nullptr)
    leave_queue(group.key);
  take_out(group, numbers);
  if (group.request.shrinks) {
    group.gone.insert(numbers.begin(), numbers.end());
    shrunk_.emplace(id, reason);
    return;
  }
  enqueue_group(id, group, Prospect{});
  events.push_back(Event::about(id, Event::Kind::pending, Errc::none,
                                fmt::format("{}: bundle{} {} of the group {} to be placed anew", reason,
                                            numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "),
                                            numbers.size() == 1 ? "is" : "are")));
}

std::set<LeaseId> Ledger::leases_in(const GroupRecord& group, const std::set<int>& numbers) const {
  std::set<LeaseId> ids;
  for (const auto id : group.leases)
    if (numbers.count(records_.at(id).lease.bundle) > 0)
      ids.insert(id);
  return ids;
}

void Ledger::take_out(GroupRecord& group, const std::set<int>& numbers) {
  const auto is_out = [&](const Bundle& bundle) { return numbers.count(bundle.grant.bundle) > 0; };
  for (auto& bundle : group.bundles)
    if (is_out(bundle))
      give_back(group, bundle);
  std::erase_if(group.bundles, is_out);
  // While they wait, those who hold leases in the other bundles kept these from their children.
  recheck_due_ = recheck_due_ || !waiting_children_.empty();
}

void Ledger::shrink_groups(Events& events) {
  for (const auto& [id, reason] : std::exchange(shrunk_, {}))
    if (const auto it = groups_.find(id); it != groups_.end())
      tell_of_shrinking(it, Event::Kind::lost, reason, events);
  for (const auto& [id, number] : std::exchange(left_bundles_, {})) {
    const auto it = groups_.find(id);
    if (it == groups_.end() || it->second.find(number) == nullptr)
      continue;
    auto& group = it->second;
    // A lease without any resources keeps the bundle too.
    if (!leases_in(group, {number}).empty())
      continue;
    take_out(group, {number});
    group.gone.insert(number);
    tell_of_shrinking(it, Event::Kind::released, "what ran in it has ended", events);
  }
}

void Ledger::tell_of_shrinking(GroupRecords::iterator it, Event::Kind end, const std::string& reason, Events& events) {
  auto& [id, group] = *it;
  if (group.bundles.empty()) {
    events.push_back(Event::about(id, end, end == Event::Kind::lost ? Errc::lease_revoked : Errc::none,
                                  reason + ": no bundle of the group is left"));
    return end_group(it, "its placement group has no bundle left", events);
  }
  events.push_back(granted(id, group));
  events.back().reason = reason + ": the group goes on with what is left";
  refuse_waiting_in(id, &group.gone, "its bundle is no more", events);
  recheck(id, events);
}

} // namespace gpuactors
