// The broker's reaction to each event of the ledger.
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/convert.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace gpuactors {

namespace {

EventKind kind_of(const Event& event) noexcept {
  switch (event.kind) {
  case Event::Kind::granted:
    return EventKind::granted;
  case Event::Kind::pending:
    return EventKind::pending;
  case Event::Kind::infeasible:
    return EventKind::infeasible;
  case Event::Kind::rejected:
    return EventKind::rejected;
  case Event::Kind::released:
    return EventKind::released;
  case Event::Kind::lost:
    return EventKind::lost;
  }
  return EventKind::error;
}

} // namespace

void BrokerCore::apply(Result<Ledger::Events> events, std::string_view what) {
  if (events)
    apply(*events);
  else
    log_.add(EventKind::error, std::string{what}, to_string(events.error()));
}

void BrokerCore::apply(const Ledger::Events& events) {
  std::optional<Lease> lost;
  for (const auto& event : events) {
    // Refusals for actors that are to move repeat until another node has room: they are neither logged nor handled.
    if (move_ && move_->request == event.request && event.kind != Event::Kind::granted) {
      move_->crowded = event.code == Errc::no_capacity;
      continue;
    }
    log(event);
    if (event.group) {
      on_group(event);
      continue;
    }
    switch (event.kind) {
    case Event::Kind::granted:
      on_granted(event);
      break;
    case Event::Kind::pending:
      make_way(event);
      break;
    case Event::Kind::infeasible:
    case Event::Kind::rejected:
      on_refused(event);
      break;
    case Event::Kind::lost:
      on_lost(event);
      if (!lost || event.lease->group || event.lease->parent)
        lost = event.lease;
      break;
    case Event::Kind::released:
      break;
    }
  }
  // A group that is being removed ends with the last lease in it, however that lease ended.
  if (lost)
    look_at_ending_groups(*lost);
  if (ledger_.recording_failed() && !std::exchange(recording_failed_, true))
    log_.add(EventKind::error, "record", "the recording of the broker's calls cannot be written");
  wake_for_ledger();
}

void BrokerCore::on_granted(const Event& event) {
  keeper_.reserve_ids(event.lease->id.value());
  if (auto request = take_task_request(event.request)) {
    start_runner(*event.lease, std::move(*request));
  } else if (move_ && move_->request == event.request) {
    actors_.reserve(*move_->actor, *event.lease);
  } else if (auto* actor = actors_.waiting_with(event.request); actor != nullptr) {
    actors_.stop_waiting(*actor);
    start_actor(*event.lease, *actor);
  } else {
    // An event before it, of the same call of the ledger, has taken away whoever waited.
    apply(ledger_.release(event.lease->id, event.lease->epoch, world_.now()), "release");
  }
  look_at_ending_groups(*event.lease);
}

void BrokerCore::withdraw_from_ledger(RequestId request, std::string_view what) {
  if (ledger_.lease_of(request) == nullptr)
    apply(ledger_.cancel(request, world_.now()), what);
}

void BrokerCore::withdraw_from_queue(ActorRecord& record, std::string_view what) {
  actors_.stop_waiting(record);
  withdraw_from_ledger(record.waiting_for, what);
}

void BrokerCore::on_refused(const Event& event) {
  const Error error{event.code, event.reason};
  if (auto request = take_task_request(event.request)) {
    request->answer.deliver(fail(error));
  } else if (auto* actor = actors_.waiting_with(event.request); actor != nullptr) {
    actors_.stop_waiting(*actor);
    // A full queue is no reason to end what has lived before.
    if (error.code() == Errc::queue_full && (actor->lives.restarts() > 0 || actor->lives.lived()))
      pause_actor(*actor, limits::lease_turn);
    else
      forget_actor(actor->id, error);
  }
}

void BrokerCore::on_lost(const Event& event) {
  const auto id = event.lease->id;
  forget_move(id);
  tell_agent_to_end(*event.lease);
  const auto node = nodes_.find(event.lease->node);
  const bool node_lost = node == nodes_.end() || node->second.agent == nullptr;
  const Error error{node_lost ? Errc::worker_died : Errc::lease_revoked, why_lost(event)};
  if (auto runner = take_task_lease(id)) {
    if (runner->starting)
      runner->starting->deliver(fail(error));
    // A task whose device has failed is still there.
    if (ledger_.find_remains(id) == nullptr)
      end_offspring(id, "the task");
  }
  auto* const actor = actors_.holder_of(id);
  if (actor == nullptr)
    return;
  actor->state = ActorState::stopping;
  actor->lost = error;
  if (ledger_.find_remains(id) == nullptr)
    leave_lost(id);
}

void BrokerCore::make_way(RequestId request) {
  // Reclaims leases that clients keep for their next task. Leases of the waiting request's own client and shape are not
  // reclaimed: they will serve the waiting tasks themselves.
  const auto waiting = task_requests_.find(request);
  for (const auto id : kept_.others(waiting != task_requests_.end() ? waiting->second.key : std::string{}))
    reclaim(id, task_leases_.at(id));
  take_turns();
}

void BrokerCore::make_way(const Event& pending) {
  const auto owner = pending.group ? ledger_.over_quota(pending.group) : ledger_.over_quota(pending.request);
  const bool in_vain = pending.group ? ledger_.waits_in_vain(pending.group) : ledger_.waits_in_vain(pending.request);
  if (owner) {
    const auto waiting = task_requests_.find(pending.request);
    make_room_for(*owner, waiting != task_requests_.end() ? waiting->second.key : std::string{});
  }
  if (pending.group && !owner && !in_vain)
    turns_.group_waits();
  if (owner || in_vain)
    take_turns();
  else
    make_way(pending.request);
  // What waits for quotas makes turns longer, which is no reason for what comes to wait as long; more of the same is
  // none to take more turns.
  const auto& known = turns_.over_quotas();
  if (owner ? !known.contains(*owner) : !known.empty())
    if (const auto turn = turns_.cut_short(world_.now()))
      world_.wake(*turn, Wake::turn);
}

bool BrokerCore::is_wanted(const Lease& lease, const TaskLease& task) const {
  if (lease.devices.empty() && lease.cpus == Share{} && lease.resources.empty())
    return false;
  const bool from_node = !lease.group && !lease.parent;
  const auto could_use = [&](RequestId id, GroupId group, LeaseId parent) {
    return (from_node ? !group : group == lease.group && parent == lease.parent)
           && (ledger_.could_be_served(id) || ledger_.over_quota(id) == lease.owner);
  };
  constexpr std::size_t most_looks = 100;
  const bool turns_help = turns_.help();
  if (turns_help && from_node) {
    const auto& actors = actors_.waiting();
    const auto end = std::next(actors.begin(), static_cast<std::ptrdiff_t>(std::min(actors.size(), most_looks)));
    if (turns_.has_group()
        || std::any_of(actors.begin(), end, [&](const auto& actor) { return could_use(actor.first, {}, {}); }))
      return true;
  }
  // If turns help nobody, what has waited for long waits for what tasks do not have. The newest come first.
  const auto long_ago = world_.now() - 5 * limits::lease_turn;
  auto looks = std::min(task_requests_.size(), most_looks);
  for (auto request = task_requests_.rbegin(); looks > 0; ++request, --looks) {
    const auto& [id, waiting] = *request;
    if (!turns_help && waiting.since < long_ago)
      return false;
    if (waiting.key != task.key && could_use(id, waiting.group, waiting.parent))
      return true;
  }
  return false;
}

void BrokerCore::take_turns() {
  if (const auto turn = turns_.begin(world_.now()))
    world_.wake(*turn, Wake::turn);
}

bool BrokerCore::waits(GroupId id, const GroupRecord& group) const {
  // One of an earlier broker waits for its nodes first.
  if (group.ending || stored_groups_.contains(id))
    return false;
  // A group that shrinks does not wait for bundles that it has lost.
  return group.asker
         || (!group.request.shrinks()
             && ledger_.bundles_of(id).size() < static_cast<std::size_t>(group.request.bundles_size()));
}

BrokerCore::Demand BrokerCore::demand() const {
  Demand demand;
  demand.waiting.over_quotas = over_quotas();
  demand.any = !task_requests_.empty() || !actors_.waiting().empty();
  // No lease is reclaimed for requests that no node could serve now, whatever made way.
  auto& oldest = demand.waiting.oldest;
  const std::string* key = nullptr;
  for (const auto& [id, task] : task_requests_) {
    if (!ledger_.could_be_served(id))
      continue;
    if (key == nullptr) {
      oldest = id;
      key = &task.key;
    } else if (*key != task.key) {
      demand.all_alike = false;
      break;
    }
  }
  for (const auto& [id, actor] : actors_.waiting())
    if (ledger_.could_be_served(id)) {
      oldest = oldest ? std::min(*oldest, id) : id;
      demand.all_alike = false;
      break;
    }
  for (const auto& [id, group] : groups_)
    if (waits(id, group)) {
      demand.any = true;
      demand.waiting.group |= !ledger_.over_quota(id) && !ledger_.waits_in_vain(id);
    }
  return demand;
}

void BrokerCore::make_way_again() {
  if (!turns_.end(world_.now()))
    return;
  auto [waiting, any, all_alike] = demand();
  for (const auto& [owner, over] : waiting.over_quotas)
    make_room_for(owner, over.key);
  if (!any)
    return turns_.rest(std::move(waiting.over_quotas));
  const auto oldest = waiting.oldest;
  turns_.look(std::move(waiting));
  if (oldest && all_alike && !turns_.has_group())
    make_way(*oldest);
  else if (oldest || turns_.has_group())
    make_way(RequestId{});
  else
    take_turns();
}

void BrokerCore::reclaim(LeaseId id, TaskLease& lease) {
  if (std::exchange(lease.reclaimed, true))
    return;
  kept_.remove(lease.owner, lease.key, id);
  v1::ReclaimLease message;
  message.set_lease(id.value());
  // A client that is away is asked again when it is back.
  if (const auto client = clients_.find(lease.client); client != clients_.end() && client->second.port != nullptr)
    world_.post(client->second.port, std::move(message));
}

void BrokerCore::log(const Event& event) {
  std::string name;
  if (const auto group = groups_.find(event.group); group != groups_.end()) {
    name = group->second.name;
  } else if (event.lease) {
    name = event.lease->name;
  } else if (const auto* actor = actors_.waiting_with(event.request); actor != nullptr) {
    name = actor->request.name();
  }
  auto& entry = log_.add(kind_of(event), std::move(name),
                         event.kind == Event::Kind::lost && event.lease ? why_lost(event) : event.reason);
  entry.set_request(event.request.value());
  if (event.lease)
    *entry.mutable_lease() = to_wire(*event.lease);
}

void BrokerCore::wake_for_ledger() {
  const auto due = ledger_.next_timeout();
  if (!due || *due >= ledger_due_)
    return;
  ledger_due_ = *due;
  world_.wake(std::max(Duration::zero(), *due - world_.now()), Wake::timeout);
}

void BrokerCore::remind(const Reminders::Due& due) {
  if (reminders_.add(due))
    world_.wake(std::max(Duration::zero(), due.at - world_.now()), Wake::due);
}

void BrokerCore::look_at_due() {
  const auto now = world_.now();
  if (!reminders_.wake(now))
    return;
  while (const auto due = reminders_.take(now)) {
    if (const auto client = clients_.find(due->client);
        client != clients_.end() && client->second.away_until == due->at)
      drop_client(due->client);
    auto* const actor = actors_.find(due->actor);
    if (actor == nullptr)
      continue;
    give_up_late_heirs(*actor);
    if (actor->due == due->at || actor->first_start_by == due->at)
      actor_due(*actor);
  }
  if (const auto next = reminders_.first())
    remind(*next);
}

void BrokerCore::stop_reminding(ActorRecord& actor) {
  for (const auto& at : {std::exchange(actor.due, std::nullopt), std::exchange(actor.first_start_by, std::nullopt)})
    if (at)
      reminders_.remove({*at, actor.id});
}

v1::Lease BrokerCore::to_wire(const Lease& lease) const {
  return gpuactors::to_wire(lease, nodes_.at(lease.node).node);
}

} // namespace gpuactors
