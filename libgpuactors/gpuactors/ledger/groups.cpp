// Placement groups: bundles set aside together, drawn from by requests that name them.
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/impl.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

using ledger_detail::place_group;

namespace {

// Of a bundle, only what decides where it can go.
ledger_detail::ShapeKey shape_key(const GroupRequest& group) {
  ledger_detail::ShapeKey key{{}, group.bundles, group.strategy};
  key.request.priority = group.priority;
  for (auto& bundle : key.bundles) {
    bundle.name.clear();
    bundle.queue_timeout.reset();
    bundle.priority = 0;
    bundle.wait_for_nodes = false;
    bundle.queue = true;
    bundle.bundle = 0;
  }
  return key;
}

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
  return finish(std::move(events), std::move(earlier));
}

void Ledger::Impl::answer_group(GroupId id, GroupRequest& request, Events& events) {
  const auto key = queue_.next_key(request.priority);
  const auto kind = shape_key(request);
  auto& group = groups_[id];
  group.key = key;
  group.request = std::move(request);
  if (try_grant_group(id, group, events))
    return;
  const auto refuse = [&](Event::Kind how, Errc code, std::string reason) {
    groups_.erase(id);
    events.push_back(about(id, how, code, std::move(reason)));
  };
  const auto& asked = group.request;
  const auto* known = queue_.find_shape(kind);
  const auto prospect = known != nullptr ? known->prospect : prospect_of(kind);
  const bool feasible = prospect.feasible;
  if (!feasible && !asked.wait_for_nodes)
    return refuse(Event::Kind::infeasible, Errc::infeasible, why_infeasible(kind));
  if (!asked.queue || asked.queue_timeout == Duration::zero())
    return refuse(Event::Kind::rejected, Errc::no_capacity, why_pending(kind, feasible));
  if (queue_.entries().size() >= options_.max_pending)
    return refuse(Event::Kind::rejected, Errc::queue_full,
                  fmt::format("{} requests wait already, more are not taken: try again when some are done",
                              options_.max_pending));
  const auto deadline = asked.queue_timeout ? deadline_after(now_, *asked.queue_timeout) : never;
  auto& shape = queue_.shape_of(kind, prospect);
  queue_.add(Entry{key, {}, id, asked.name, now_, deadline, asked.wait_for_nodes, &shape});
  events.push_back(about(id, Event::Kind::pending, Errc::none, why_pending(kind, feasible)));
}

bool Ledger::Impl::try_grant_group(GroupId id, Group& group, Events& events) {
  const auto& wanted = group.request.bundles;
  auto places = place_group(cluster_, wanted, group.request.strategy, binding(group.key));
  if (!places)
    return false;
  if (queue_.find(group.key) != nullptr)
    leave_queue(group.key);
  auto granted = about(id, Event::Kind::granted, Errc::none, {});
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    auto& [pool, devices] = (*places)[i];
    cluster_.take(*pool, devices, wanted[i].cpus, wanted[i].resources);
    group.bundles.push_back(
        {{static_cast<int>(i), pool->node->spec.name, std::move(devices), wanted[i].cpus, wanted[i].resources},
         pool,
         nullptr});
    auto& bundle = group.bundles.back();
    bundle.pool = std::make_unique<Pool>(ledger_detail::make_pool(++next_pool_, *pool->node, bundle.grant.devices,
                                                                  bundle.grant.cpus, bundle.grant.resources));
    granted.bundles.push_back(bundle.grant);
  }
  events.push_back(std::move(granted));
  if (group.waiting > 0)
    recheck_group(id, events);
  if (!queue_.heads().empty())
    for (const auto& bundle : group.bundles)
      count_pass(group.key, Placement{bundle.source, bundle.grant.devices});
  return true;
}

Result<Ledger::Events> Ledger::Impl::release_group(GroupId id, TimePoint now) {
  const auto it = groups_.find(id);
  if (it == groups_.end())
    return fail(Errc::not_found, fmt::format("there is no placement group {}", id.value()));
  Events events;
  if (it->second.bundles.empty()) {
    refuse_entry(it->second.key, Event::Kind::released, Errc::cancelled, "withdrawn while it waited", events);
  } else {
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
  if (group.waiting > 0) {
    std::set<QueueKey> waiting;
    for (const auto& [key, shape] : queue_.shapes())
      if (key.request.group == id)
        for (const auto age : shape.ages)
          waiting.insert({key.request.priority, age});
    for (const auto key : waiting)
      refuse_entry(key, Event::Kind::rejected, Errc::not_found, reason, events);
  }
  for (auto& bundle : group.bundles) {
    drop_reservations_on(*bundle.source->node);
    GPUACTORS_LEDGER_CHECK(bundle.pool->is_untouched(), "a bundle was removed while something in it is held");
    cluster_.give_back(*bundle.source, bundle.grant.devices, bundle.grant.cpus, bundle.grant.resources);
    freed_.erase(std::remove(freed_.begin(), freed_.end(), bundle.pool.get()), freed_.end());
    if (!claims_.empty())
      freed_.push_back(bundle.source);
  }
  groups_.erase(it);
}

} // namespace gpuactors
