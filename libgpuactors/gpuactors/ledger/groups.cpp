// Fit groups: bundles that are set aside together, and from which requests that name them draw.
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/impl.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gpuactors {

using ledger_detail::place_group;

namespace {

Event about(GroupId id, Event::Kind kind, Errc code, std::string reason) {
  return Event{kind, {}, id, std::nullopt, {}, code, std::move(reason)};
}

} // namespace

Ledger::Events Ledger::Impl::submit_group(GroupId id, GroupRequest request, TimePoint now) {
  Events earlier;
  pass_time(now, earlier);
  Events events;
  const auto valid = validate(request);
  if (!id)
    events.push_back(about(id, Event::Kind::rejected, Errc::invalid_argument, "a group needs an id other than 0"));
  else if (!valid)
    events.push_back(about(id, Event::Kind::rejected, valid.error().code(), valid.error().message()));
  else if (groups_.count(id) > 0)
    events.push_back(about(id, Event::Kind::rejected, Errc::already_exists,
                           fmt::format("placement group {} is already there", id.value())));
  else
    answer_group(id, request, events);
  if (quota_due_)
    pump(events);
  return finish(std::move(events), std::move(earlier));
}

// Keeps of each bundle only the fields that decide where it can go.
Ledger::Impl::ShapeKey Ledger::Impl::shape_of_group(GroupId id, const Group& group) const {
  ShapeKey key{{}, {}, group.request.strategy, group.bundles.empty() ? GroupId{} : id};
  key.request.priority = group.request.priority;
  key.request.owner = quotas_.bounded(group.request.owner);
  for (std::size_t i = 0; i < group.request.bundles.size(); ++i) {
    if (!group.lacks(static_cast<int>(i)))
      continue;
    auto& bundle = key.bundles.emplace_back(group.request.bundles[i]);
    bundle.name.clear();
    bundle.queue_timeout.reset();
    bundle.priority = 0;
    bundle.wait_for_nodes = false;
    bundle.queue = true;
    bundle.bundle = 0;
    bundle.owner.clear();
  }
  return key;
}

std::vector<Ledger::Impl::Hold> Ledger::Impl::kept_holds(GroupId keeper) const {
  std::vector<Hold> holds;
  if (keeper)
    for (const auto& bundle : groups_.at(keeper).bundles)
      holds.push_back({bundle.source, &bundle.grant.devices, bundle.grant.cpus, &bundle.grant.resources});
  return holds;
}

std::set<const Ledger::Impl::Node*> Ledger::Impl::kept_nodes(GroupId keeper) const {
  std::set<const Node*> nodes;
  if (keeper)
    for (const auto& bundle : groups_.at(keeper).bundles)
      nodes.insert(bundle.source->node);
  return nodes;
}

void Ledger::Impl::answer_group(GroupId id, GroupRequest& request, Events& events) {
  auto& group = groups_[id];
  group.key = queue_.next_key(request.priority);
  group.request = std::move(request);
  if (try_grant_group(id, group, events))
    return;
  const auto refuse = [&](Event::Kind how, Errc code, std::string reason) {
    groups_.erase(id);
    events.push_back(about(id, how, code, std::move(reason)));
  };
  const auto kind = shape_of_group(id, group);
  const auto& asked = group.request;
  const auto* known = queue_.find_shape(kind);
  const auto prospect = known != nullptr ? known->prospect : prospect_of(kind);
  if (prospect.needs_new_node() && !asked.wait_for_nodes && !expecting_)
    return refuse(Event::Kind::infeasible, Errc::infeasible, why_infeasible(kind));
  if (!asked.queue || asked.queue_timeout == Duration::zero())
    return refuse(Event::Kind::rejected, Errc::no_capacity, why_pending(kind, prospect));
  if (queue_.entries().size() >= options_.max_pending)
    return refuse(Event::Kind::rejected, Errc::queue_full,
                  fmt::format("{} requests wait already, more are not taken: try again when some are done",
                              options_.max_pending));
  enqueue_group(id, group, prospect);
  events.push_back(about(id, Event::Kind::pending, Errc::none, why_pending(kind, prospect)));
}

void Ledger::Impl::enqueue_group(GroupId id, Group& group, Prospect prospect) {
  const auto& asked = group.request;
  // A placed group waits without a deadline: the lack of a place for a lost bundle must not end the work in the others.
  const auto deadline = asked.queue_timeout && !group.placed ? deadline_after(now_, *asked.queue_timeout) : never;
  auto& shape = queue_.shape_of(shape_of_group(id, group), prospect);
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

Event Ledger::Impl::describe_grant(GroupId id, const Group& group) {
  auto granted = about(id, Event::Kind::granted, Errc::none, {});
  for (const auto& bundle : group.bundles)
    granted.bundles.push_back(bundle.grant);
  return granted;
}

bool Ledger::Impl::try_grant_group(GroupId id, Group& group, Events& events) {
  const auto wanted = shape_of_group(id, group);
  auto lens = binding(group.key);
  if (!has_room(wanted.request.owner, ledger_detail::least_charge(wanted), lens))
    return false;
  auto places = place_group(table_, wanted.bundles, wanted.strategy, lens, kept_nodes(wanted.keeper));
  if (!places || charge_of(*places) > quotas_.room_of(wanted.request.owner))
    return false;
  if (queue_.find(group.key) != nullptr)
    leave_queue(group.key);
  std::vector<Fit> placed;
  std::size_t next = 0;
  for (int i = 0; i < static_cast<int>(group.request.bundles.size()); ++i) {
    if (!group.lacks(i))
      continue;
    placed.push_back(std::move((*places)[next++]));
    const auto& asked = group.request.bundles[static_cast<std::size_t>(i)];
    set_aside(group, {i, placed.back().pool->node->spec.name, placed.back().devices, asked.cpus, asked.resources},
              *placed.back().pool);
  }
  group.placed = true;
  events.push_back(describe_grant(id, group));
  if (group.waiting > 0) {
    for (const auto& bundle : group.bundles)
      note_freed(*bundle.pool, id);
    recheck_group(id, events);
  }
  if (queue_.wakes().size() > 0)
    for (const auto& place : placed)
      count_pass(group.key, place);
  return true;
}

void Ledger::Impl::set_aside(Group& group, BundleGrant grant, Pool& source) {
  table_.take(source, grant.devices, grant.cpus, grant.resources);
  charge(group.request.owner, grant.devices);
  auto pool = std::make_unique<Pool>(
      ledger_detail::make_pool(++next_pool_, *source.node, grant.devices, grant.cpus, grant.resources));
  const auto at = std::find_if(group.bundles.begin(), group.bundles.end(),
                               [&](const Bundle& bundle) { return bundle.grant.bundle > grant.bundle; });
  group.bundles.insert(at, Bundle{std::move(grant), &source, std::move(pool)});
}

Result<Ledger::Events> Ledger::Impl::release_group(GroupId id, TimePoint now) {
  const auto it = groups_.find(id);
  if (it == groups_.end())
    return fail(Errc::not_found, fmt::format("there is no placement group {}", id.value()));
  Events events;
  // One that shrinks, and of which nothing is left, is not in the queue.
  if (it->second.bundles.empty() && queue_.find(it->second.key) != nullptr) {
    refuse_entry(it->second.key, Event::Kind::released, Errc::cancelled, "withdrawn while it waited", events);
  } else {
    if (it->second.lacks(-1))
      leave_queue(it->second.key);
    events.push_back(about(id, Event::Kind::released, Errc::none, {}));
    end_group(it, "its placement group was removed", events);
  }
  pass_time(now, events);
  pump(events);
  return events;
}

void Ledger::Impl::end_group(Groups::iterator it, const std::string& reason, Events& events) {
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

void Ledger::Impl::refuse_waiting_in(GroupId id, const std::set<int>* numbers, const std::string& reason,
                                     Events& events) {
  if (groups_.at(id).waiting == 0)
    return;
  std::set<QueueKey> waiting;
  for (const auto& [kind, shape] : queue_.shapes())
    if (const auto& key = kind;
        key.request.group == id && (numbers == nullptr || numbers->count(key.request.bundle) > 0))
      shape.ages.for_each([&](std::uint64_t age) { waiting.insert({key.request.priority, age}); });
  for (const auto key : waiting)
    refuse_entry(key, Event::Kind::rejected, Errc::not_found, reason, events);
}

void Ledger::Impl::give_back(const Group& group, Bundle& bundle) {
  drop_reservations_on(*bundle.source->node);
  GPUACTORS_LEDGER_CHECK(bundle.pool->is_untouched(), "a bundle was removed while something in it is held");
  table_.give_back(*bundle.source, bundle.grant.devices, bundle.grant.cpus, bundle.grant.resources);
  discharge(group.request.owner, bundle.grant.devices);
  forget_pool(*bundle.pool);
  note_freed(*bundle.source, {});
  if (!claims_.empty())
    freed_.push_back(bundle.source);
}

// -- lost bundles ----------------------------------------------------------------------------------

void Ledger::Impl::lose_bundles(GroupId id, const std::set<int>& numbers, const std::string& reason, Events& events) {
  auto& group = groups_.at(id);
  const auto is_lost = [&](int number) { return numbers.count(number) > 0; };
  std::set<LeaseId> ids;
  for (const auto lease : group.leases)
    if (is_lost(records_.at(lease).lease.bundle))
      ids.insert(lease);
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
  events.push_back(
      about(id, Event::Kind::pending, Errc::none,
            fmt::format("{}: bundle{} {} of the group {} to be placed anew", reason, numbers.size() == 1 ? "" : "s",
                        fmt::join(numbers, ", "), numbers.size() == 1 ? "is" : "are")));
}

void Ledger::Impl::take_out(Group& group, const std::set<int>& numbers) {
  const auto is_out = [&](const Bundle& bundle) { return numbers.count(bundle.grant.bundle) > 0; };
  for (auto& bundle : group.bundles)
    if (is_out(bundle))
      give_back(group, bundle);
  group.bundles.erase(std::remove_if(group.bundles.begin(), group.bundles.end(), is_out), group.bundles.end());
}

void Ledger::Impl::shrink_groups(Events& events) {
  for (const auto& [id, reason] : std::exchange(shrunk_, {}))
    if (const auto it = groups_.find(id); it != groups_.end())
      tell_of_shrinking(it, Event::Kind::lost, reason, events);
  for (const auto& [id, number] : std::exchange(left_, {})) {
    const auto it = groups_.find(id);
    if (it == groups_.end() || it->second.find(number) == nullptr)
      continue;
    const auto& leases = it->second.leases;
    // A lease without any resources keeps the bundle too.
    if (std::any_of(leases.begin(), leases.end(),
                    [&](LeaseId lease) { return records_.at(lease).lease.bundle == number; }))
      continue;
    take_out(it->second, {number});
    it->second.gone.insert(number);
    tell_of_shrinking(it, Event::Kind::released, "what ran in it has ended", events);
  }
}

void Ledger::Impl::tell_of_shrinking(Groups::iterator it, Event::Kind end, const std::string& reason, Events& events) {
  auto& [id, group] = *it;
  if (group.bundles.empty()) {
    events.push_back(about(id, end, end == Event::Kind::lost ? Errc::lease_revoked : Errc::none,
                           reason + ": no bundle of the group is left"));
    return end_group(it, "its placement group has no bundle left", events);
  }
  events.push_back(describe_grant(id, group));
  events.back().reason = reason + ": the group goes on with what is left";
  refuse_waiting_in(id, &group.gone, "its bundle is no more", events);
  recheck_group(id, events);
}

} // namespace gpuactors
