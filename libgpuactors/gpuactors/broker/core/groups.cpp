// The broker and placement groups: requests of clients, events of the ledger, and the end of a group.
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/convert.hpp>
#include <gpuactors/broker/core/printable.hpp>
#include <gpuactors/broker/core/requests.hpp>

#include <fmt/format.h>

#include <set>

namespace gpuactors {

namespace {

Error no_group(GroupId id) {
  return Error{Errc::not_found, fmt::format("there is no placement group {}", id.value())};
}

} // namespace

void BrokerCore::submit_group(const v1::SubmitGroup& message, const Caller& caller, GroupAnswer answer) {
  if (clients_.count(message.client()) == 0)
    return answer.deliver(fail(Errc::unavailable, "the broker does not know the client: its connection was lost"));
  const ClientRequest key{message.client(), message.client_request()};
  if (const auto known = submitted_groups_.find(key); known != submitted_groups_.end()) {
    // The client repeats a request whose answer was lost.
    auto& record = groups_.at(known->second);
    const auto info = info_of(known->second, record);
    if (record.ending)
      return answer.deliver(fail(Errc::cancelled, "the placement group is being removed"));
    if (info.state() == "placed")
      return answer.deliver(info);
    record.asker = std::move(answer);
    return take_turns();
  }
  auto request = read_request(message);
  if (!request)
    return answer.deliver(fail(request.error()));
  if (auto checked = check_shown_name("the placement group", message.name()); !checked)
    return answer.deliver(fail(checked.error()));
  auto kept = message;
  if (auto checked = check_spawner(kept, kept.detached(), caller); !checked)
    return answer.deliver(fail(checked.error()));
  auto place = rooms_.enter(caller, message.ByteSizeLong());
  if (!place)
    return answer.deliver(fail(place.error()));
  const GroupId id{++last_group_};
  auto& record = groups_[id];
  record.place = std::move(*place);
  record.request = std::move(kept);
  offspring_.add(spawner_of(record.request.spawner()), id);
  record.request.set_owner(caller.name);
  if (!caller.administers)
    record.request.set_quota_owner(caller.name);
  request->owner = record.request.quota_owner();
  record.name = message.name().empty() ? fmt::format("group-{}", id.value()) : message.name();
  request->name = record.name;
  record.asker = std::move(answer);
  submitted_groups_[key] = id;
  apply(ledger_.submit_group(id, std::move(*request), world_.now()));
  keep(id);
}

void BrokerCore::release_group(const v1::ReleaseGroup& message, const Caller& caller, DoneAnswer answer) {
  answer = keeper_.when_kept(std::move(answer));
  const GroupId id{message.id()};
  const auto found = groups_.find(id);
  if (found == groups_.end()) {
    if (message.again())
      return answer.deliver({});
    return answer.deliver(fail(no_group(id)));
  }
  const auto& group = found->second;
  if (auto permitted = check_owner(caller, fmt::format("placement group {}", group.name), group.request.owner());
      !permitted)
    return answer.deliver(std::move(permitted));
  found->second.removers.push_back(std::move(answer));
  if (!found->second.ending)
    end_group(id);
}

Result<void> BrokerCore::check_group(GroupId group) const {
  if (!group)
    return {};
  const auto found = groups_.find(group);
  if (found == groups_.end())
    return fail(no_group(group));
  if (found->second.ending)
    return fail(Errc::invalid_argument, fmt::format("placement group {} is being removed", group.value()));
  return {};
}

void BrokerCore::end_group(GroupId id) {
  const auto ending = groups_.find(id);
  if (ending == groups_.end())
    return; // the group's time in the queue ended while another one was removed
  ending->second.ending = true;
  ending_groups_.insert(id);
  // Refuses the requests that wait for the group, so that nothing starts in it any more ...
  const Error removed{Errc::cancelled, fmt::format("placement group {} was removed", id.value())};
  std::vector<RequestId> waiting;
  for (const auto& [request, task] : task_requests_)
    if (task.group == id && ledger_.is_pending(request))
      waiting.push_back(request);
  for (const auto request : waiting) {
    auto task = take_task_request(request);
    if (!task)
      continue; // granted when the request before it was withdrawn
    task->answer.deliver(fail(removed));
    apply(ledger_.cancel(request, world_.now()), "release_group");
  }
  std::vector<ActorId> actors;
  for (auto& [actor, record] : actors_)
    if (GroupId{record.request.group()} == id) {
      record.no_restart = true;
      if (record.state == ActorState::waiting || record.state == ActorState::pausing)
        actors.push_back(actor);
    }
  for (const auto actor : actors) {
    auto* const found = actors_.find(actor);
    if (found == nullptr)
      continue;
    if (found->state == ActorState::waiting) {
      withdraw_from_queue(*found, "release_group");
    } else if (found->state != ActorState::pausing) {
      continue; // granted when the request before it was withdrawn
    }
    forget_actor(actor, removed);
  }
  // A group of an earlier broker that is not in the ledger yet does not get there.
  if (stored_groups_.erase(id) > 0)
    return forget_group(id, removed);
  // ... and releases the group once all its leases, and what borrows from them, have ended and their memory is free.
  const auto inside = ledger_.held_in(id);
  for (const auto lease : inside) {
    if (task_leases_.count(lease) > 0) {
      end_task_lease(lease);
    } else if (auto* holder = actors_.holder_of(lease); holder != nullptr && holder->state != ActorState::stopping) {
      holder->state = ActorState::stopping;
      holder->end_reason = removed.message();
      tell_agent_to_end(*ledger_.find_lease(lease));
    }
  }
  if (inside.empty())
    apply(ledger_.release_group(id, world_.now()), "release_group");
}

void BrokerCore::look_at_ending_groups(const Lease& lease) {
  if (ending_groups_.empty() || (!lease.group && !lease.parent))
    return;
  if (lease.group) {
    if (ending_groups_.count(lease.group) > 0)
      end_group(lease.group);
    return;
  }
  // What is borrowed may be of any.
  for (const auto id : std::set{ending_groups_})
    end_group(id);
}

void BrokerCore::forget_group(GroupId id, const Error& error) {
  auto group = groups_.extract(id);
  if (group.empty())
    return;
  ending_groups_.erase(id);
  submitted_groups_.erase({group.mapped().request.client(), group.mapped().request.client_request()});
  offspring_.remove(spawner_of(group.mapped().request.spawner()), id);
  keeper_.erase(StateSection::groups, id.value());
  if (group.mapped().asker)
    group.mapped().asker->deliver(fail(error));
  for (auto& remover : group.mapped().removers)
    remover.deliver({});
}

void BrokerCore::on_group(const Event& event) {
  const auto found = groups_.find(event.group);
  if (found == groups_.end())
    return;
  switch (event.kind) {
  case Event::Kind::granted:
    found->second.was_placed();
    if (auto asker = std::exchange(found->second.asker, std::nullopt))
      asker->deliver(info_of(event.group, found->second));
    keep(event.group);
    break;
  case Event::Kind::pending:
    make_way(event);
    keep(event.group);
    break;
  case Event::Kind::infeasible:
    forget_group(event.group, Error{Errc::infeasible, event.reason});
    break;
  case Event::Kind::rejected:
    forget_group(event.group, Error{event.code, event.reason});
    break;
  case Event::Kind::released:
  case Event::Kind::lost:
    forget_group(event.group, Error{Errc::cancelled, "the placement group was removed"});
    break;
  }
}

v1::GroupInfo BrokerCore::info_of(GroupId id, const GroupRecord& record) const {
  v1::GroupInfo info;
  info.set_id(id.value());
  info.set_name(record.name);
  info.set_owner(record.request.owner());
  const auto count = record.request.bundles_size();
  const auto bundles = ledger_.bundles_of(id);
  for (int number = 0; number < count; ++number)
    info.add_bundles();
  for (const auto& bundle : bundles) {
    auto& entry = *info.mutable_bundles(bundle.bundle);
    entry.set_node(bundle.node);
    *entry.mutable_devices() = gpuactors::to_wire(bundle, nodes_.at(bundle.node).node).devices();
  }
  const bool placed = record.request.shrinks() ? !bundles.empty() : bundles.size() == static_cast<std::size_t>(count);
  info.set_state(record.ending ? "ending" : placed ? "placed" : "waiting");
  return info;
}

} // namespace gpuactors
