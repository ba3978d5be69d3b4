// The broker and placement groups: what clients ask, what the ledger's answers mean, and how a group ends.
#include <gpuactors/broker/convert.hpp>
#include <gpuactors/broker/resource_broker.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace {

Error no_group(GroupId id) {
  return Error{Errc::not_found, fmt::format("there is no placement group {}", id.value())};
}

} // namespace

caf::result<v1::Done> ResourceBroker::drain(const v1::DrainNode& message) {
  auto events = ledger_.drain_node(message.name(), Clock::now());
  if (!events)
    return to_caf(events.error());
  log_.add(Clock::now(), "node_drained", message.name());
  apply(*events);
  return v1::Done{};
}

caf::result<v1::GroupInfo> ResourceBroker::submit_group(const v1::SubmitGroup& message) {
  auto request = from_wire(message);
  if (!request)
    return to_caf(request.error());
  const GroupId id{++last_group_};
  auto& record = groups_[id];
  record.name = message.name().empty() ? fmt::format("group-{}", id.value()) : message.name();
  request->name = record.name;
  auto promise = make_response_promise<v1::GroupInfo>();
  record.placed = promise;
  apply(ledger_.submit_group(id, std::move(*request), Clock::now()));
  return promise;
}

caf::result<v1::Done> ResourceBroker::release_group(const v1::ReleaseGroup& message) {
  const GroupId id{message.id()};
  const auto found = groups_.find(id);
  if (found == groups_.end())
    return to_caf(no_group(id));
  auto promise = make_response_promise<v1::Done>();
  const bool first = found->second.removers.empty();
  found->second.removers.push_back(promise);
  if (first)
    end_group(id);
  return promise;
}

Result<void> ResourceBroker::check_group(GroupId group) const {
  if (!group)
    return {};
  const auto found = groups_.find(group);
  if (found == groups_.end())
    return fail(no_group(group));
  if (!found->second.removers.empty())
    return fail(Errc::invalid_argument, fmt::format("placement group {} is being removed", group.value()));
  return {};
}

void ResourceBroker::end_group(GroupId id) {
  // What waits for the group is refused, so that nothing starts in it any more ...
  const Error removed{Errc::cancelled, fmt::format("placement group {} was removed", id.value())};
  std::vector<RequestId> waiting;
  for (const auto& [request, task] : task_requests_)
    if (task.group == id && ledger_.is_pending(request))
      waiting.push_back(request);
  for (const auto request : waiting) {
    take_task_request(request)->promise.deliver(to_caf(removed));
    apply(ledger_.cancel(request, Clock::now()), "release_group");
  }
  std::vector<ActorId> actors;
  for (auto& [actor, record] : actors_)
    if (GroupId{record.request.group()} == id) {
      record.no_restart = true;
      if (record.state == ActorState::waiting)
        actors.push_back(actor);
    }
  for (const auto actor : actors) {
    const auto request = actors_.at(actor).waiting_for;
    actor_requests_.erase(request);
    apply(ledger_.cancel(request, Clock::now()), "release_group");
    forget_actor(actor, removed);
  }
  // ... and the group goes when what runs in it has ended: not before its memory is free.
  bool empty = true;
  for (const auto& lease : ledger_.leases()) {
    if (lease.group != id)
      continue;
    empty = false;
    if (const auto task = task_leases_.find(lease.id); task != task_leases_.end()) {
      if (!std::exchange(task->second.ending, true))
        end_lease(lease, 0, std::nullopt);
    } else if (const auto holder = actor_leases_.find(lease.id); holder != actor_leases_.end()) {
      if (auto& record = actors_.at(holder->second); record.state != ActorState::stopping) {
        record.state = ActorState::stopping;
        end_lease(lease, 0, std::nullopt);
      }
    }
  }
  if (empty)
    apply(ledger_.release_group(id, Clock::now()), "release_group");
}

void ResourceBroker::forget_group(GroupId id, const Error& error) {
  auto group = groups_.extract(id);
  if (group.empty())
    return;
  if (group.mapped().placed)
    group.mapped().placed->deliver(to_caf(error));
  for (auto& remover : group.mapped().removers)
    remover.deliver(v1::Done{});
}

void ResourceBroker::on_group(const Event& event) {
  const auto found = groups_.find(event.group);
  if (found == groups_.end())
    return;
  switch (event.kind) {
  case Event::Kind::granted:
    if (auto placed = std::exchange(found->second.placed, std::nullopt))
      placed->deliver(info_of(event.group, found->second));
    break;
  case Event::Kind::pending:
    make_way(RequestId{});
    break;
  case Event::Kind::infeasible:
    forget_group(event.group, Error{Errc::infeasible, event.reason});
    break;
  case Event::Kind::rejected:
    // The ledger speaks of its clock; to the one who waited it means that there was no room in time.
    forget_group(event.group,
                 Error{event.code == Errc::deadline_exceeded ? Errc::no_capacity : event.code, event.reason});
    break;
  case Event::Kind::released:
  case Event::Kind::lost:
    forget_group(event.group, Error{Errc::cancelled, "the placement group was removed"});
    break;
  }
}

v1::GroupInfo ResourceBroker::info_of(GroupId id, const GroupRecord& record) const {
  v1::GroupInfo info;
  info.set_id(id.value());
  info.set_name(record.name);
  bool placed = true;
  for (const auto& bundle : ledger_.bundles_of(id)) {
    Lease place;
    place.node = bundle.node;
    place.devices = bundle.devices;
    auto* entry = info.add_bundles();
    entry->set_node(bundle.node);
    *entry->mutable_devices() = to_wire(place).devices();
    placed = placed && !bundle.node.empty();
  }
  info.set_state(!record.removers.empty() ? "ending" : placed && info.bundles_size() > 0 ? "placed" : "waiting");
  return info;
}

} // namespace gpuactors
