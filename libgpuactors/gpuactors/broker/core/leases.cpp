// The broker and leases for tasks: from the request to the lease's end.
#include <gpuactors/base/fingerprint.hpp>
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/convert.hpp>
#include <gpuactors/broker/core/requests.hpp>
#include <gpuactors/wire/lease_end.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace {

/// A request and whose it is. A long one in short, because it is kept as long as the lease; two that are taken for one
/// are of one client, at least.
std::string key_of(std::uint64_t client, const v1::ResourceRequest& asked) {
  constexpr std::size_t most = 512;
  auto bytes = deterministic_bytes(asked);
  if (bytes.size() > most) {
    Fingerprint fingerprint;
    fingerprint.add(bytes);
    bytes = fmt::format("{} bytes, {}", bytes.size(), fingerprint.to_string());
  }
  return fmt::format("{}/{}", client, bytes);
}

} // namespace

// -- requests -------------------------------------------------------------------------------------

void BrokerCore::acquire(const v1::AcquireLease& message, const Caller& caller, GrantAnswer answer) {
  if (clients_.count(message.client()) == 0)
    return answer.deliver(fail(Errc::unavailable, "the broker does not know the client: its connection was lost"));
  auto asked = message.request();
  set_owner(asked, caller);
  auto request = read_request(asked);
  if (!request)
    return answer.deliver(fail(request.error()));
  if (auto checked = check_group(request->group); !checked)
    return answer.deliver(fail(checked.error()));
  auto type = type_of(task_kind, asked.task());
  if (!type)
    return answer.deliver(fail(type.error()));
  request->type = *type;
  if (auto* known = pending_request({message.client(), message.client_request()}); known != nullptr) {
    // The client repeats a request whose answer it cannot get any more.
    std::exchange(known->answer, std::move(answer)).deliver(fail(Errc::cancelled, "the request was repeated"));
    return;
  }
  auto place = leases_room_.enter(caller, 0);
  if (!place)
    return answer.deliver(fail(place.error()));
  const auto id = RequestId{++last_request_};
  TaskRequest waiting;
  waiting.place = std::move(*place);
  waiting.client = message.client();
  waiting.client_request = message.client_request();
  waiting.key = key_of(message.client(), asked);
  waiting.since = world_.now();
  waiting.group = request->group;
  waiting.parent = request->parent;
  waiting.isolated = message.request().isolated();
  waiting.environment = message.request().environment();
  waiting.task = message.request().task();
  waiting.answer = std::move(answer);
  client_requests_[{message.client(), message.client_request()}] = id;
  keeper_.reserve_ids(id.value());
  task_requests_.emplace(id, std::move(waiting));
  apply(ledger_.submit(id, std::move(*request), world_.now()));
}

TaskRequest* BrokerCore::pending_request(const ClientRequest& key) {
  const auto found = client_requests_.find(key);
  return found != client_requests_.end() && ledger_.is_pending(found->second) ? &task_requests_.at(found->second)
                                                                              : nullptr;
}

void BrokerCore::cancel(const v1::CancelAcquire& message) {
  const ClientRequest key{message.client(), message.client_request()};
  // A lease that was granted meanwhile is on its way: the client gives it back when it arrives.
  if (pending_request(key) == nullptr)
    return;
  const auto id = client_requests_.at(key);
  take_task_request(id)->answer.deliver(fail(Errc::cancelled, "the request was withdrawn"));
  apply(ledger_.cancel(id, world_.now()), "cancel");
}

void BrokerCore::withdraw(const v1::Withdraw& message, DoneAnswer answer) {
  answer = keeper_.when_kept(std::move(answer));
  const ClientRequest key{message.client(), message.client_request()};
  if (give_up_heir(key))
    return answer.deliver({});
  early_.give_up_spawn(key.first, key.second);
  auto* const actor = actors_.spawned_for(key);
  if (actor != nullptr && actor->shared)
    return answer.deliver({});
  // A node that is cut off may have it from an earlier broker, and come back with it; also if the client has asked this
  // broker for it again.
  // A client that is away may have lost its connection on the way: there is room for some of those, too.
  if (clients_.count(message.client()) > 0 || withdrawn_.size() < limits::buried_actors) {
    withdrawn_.insert(key);
    if (const auto [first, last] = withdrawals_of(message.client());
        std::distance(first, last) > static_cast<std::ptrdiff_t>(limits::withdrawn_requests))
      withdrawn_.erase(first);
  }
  // The answer says that the actor or group is gone, so it waits until all nodes are back; if the broker restarts
  // before, the client asks the new one.
  if (settling_) {
    early_.keep(EarlyCalls::Withdrawal{message, std::move(answer)});
    answer = DoneAnswer{[](const Result<void>&) {}};
  }
  if (actor != nullptr) {
    actor->no_restart = true;
    actor->until_killed.push_back(std::move(answer));
    if (actor->state != ActorState::stopping)
      kill(*actor, stop_grace_ms, "the request for it was withdrawn");
  } else if (const auto group = submitted_groups_.find(key); group != submitted_groups_.end()) {
    auto& record = groups_.at(group->second);
    record.removers.push_back(std::move(answer));
    if (!record.ending)
      end_group(group->second);
  } else {
    answer.deliver({});
  }
}

std::optional<TaskRequest> BrokerCore::take_task_request(RequestId id) {
  auto found = task_requests_.extract(id);
  if (found.empty())
    return std::nullopt;
  client_requests_.erase({found.mapped().client, found.mapped().client_request});
  return std::move(found.mapped());
}

// -- leases ---------------------------------------------------------------------------------------

void BrokerCore::start_runner(const Lease& lease, TaskRequest request) {
  auto& held = add_task_lease(lease, request.client, std::move(request.key));
  held.place = std::move(request.place);
  held.starting = std::move(request.answer);
  v1::StartRunner order;
  *order.mutable_lease() = to_wire(lease);
  order.set_client(request.client);
  order.set_client_request(request.client_request);
  order.set_isolated(request.isolated);
  *order.mutable_environment() = std::move(request.environment);
  order.set_task(std::move(request.task));
  if (const auto& agent = nodes_.at(lease.node).agent)
    world_.post(agent, std::move(order));
}

TaskLease& BrokerCore::add_task_lease(const Lease& lease, ClientId client, std::string key) {
  auto& task = task_leases_[lease.id];
  task.client = client;
  task.key = std::move(key);
  task.owner = lease.owner;
  kept_.add(task.owner, task.key, lease.id);
  return task;
}

std::optional<TaskLease> BrokerCore::take_task_lease(LeaseId id) {
  auto found = task_leases_.extract(id);
  if (found.empty())
    return std::nullopt;
  kept_.remove(found.mapped().owner, found.mapped().key, id);
  unclaim(found.mapped().client, id);
  return std::move(found.mapped());
}

void BrokerCore::lease_started(const v1::LeaseStarted& message, HolderContacts contacts) {
  if (arrivals_.postpone(message))
    return;
  const LeaseId id{message.lease()};
  const auto* lease = ledger_.find_lease(id);
  if (lease == nullptr || lease->epoch != message.epoch())
    return;
  if (auto* actor = actors_.holder_of(id); actor != nullptr)
    return actor_started(*actor, message, std::move(contacts));
  const auto found = task_leases_.find(id);
  if (found == task_leases_.end() || !found->second.starting)
    return;
  auto answer = *std::exchange(found->second.starting, std::nullopt);
  v1::Granted granted;
  *granted.mutable_lease() = to_wire(*lease);
  granted.set_address(message.address());
  granted.set_wanted(is_wanted(*lease, found->second));
  answer.deliver(Grant{std::move(granted), std::move(contacts)});
}

void BrokerCore::release(const v1::ReleaseLease& message, const Caller& caller) {
  const auto is_own = [&](const auto& client) {
    return caller.administers || (client != clients_.end() && client->second.owner == caller.name);
  };
  const auto* lease = ledger_.find_lease(LeaseId{message.lease()});
  if (lease == nullptr) {
    // The lease's node may still bring it back: nobody claims the lease any more then.
    for (auto client = clients_.begin(); client != clients_.end(); ++client)
      if (is_own(client))
        client->second.claimed.erase(LeaseId{message.lease()});
    return;
  }
  const auto held = task_leases_.find(lease->id);
  if (lease->epoch == message.epoch() && held != task_leases_.end() && is_own(clients_.find(held->second.client)))
    end_task_lease(lease->id);
}

void BrokerCore::end_task_lease(LeaseId id) {
  auto& held = task_leases_.at(id);
  unclaim(held.client, id);
  if (!std::exchange(held.ending, true))
    tell_agent_to_end(*ledger_.find_lease(id));
}

void BrokerCore::unclaim(ClientId id, LeaseId lease) {
  if (const auto client = clients_.find(id); client != clients_.end())
    client->second.claimed.erase(lease);
}

void BrokerCore::tell_agent_again_to_end(const Lease& lease) {
  // Whether the first order has arrived is unknown.
  const auto first = graces_.find(lease.id);
  tell_agent_to_end(lease, first != graces_.end() ? first->second : stop_grace_ms);
}

void BrokerCore::tell_agent_to_end(const Lease& lease, std::uint64_t grace_ms) {
  // What is not in the ledger has no end that would be heard of.
  if (ledger_.find_lease(lease.id) != nullptr || ledger_.find_remains(lease.id) != nullptr)
    graces_[lease.id] = grace_ms;
  v1::EndLease order;
  order.set_lease(lease.id.value());
  order.set_epoch(lease.epoch);
  order.set_grace_ms(grace_ms);
  if (const auto node = nodes_.find(lease.node); node != nodes_.end() && node->second.agent != nullptr)
    world_.post(node->second.agent, std::move(order));
}

void BrokerCore::lost_holder_ended(LeaseId id, std::uint64_t epoch) {
  const auto* rest = ledger_.find_remains(id);
  if (rest == nullptr || rest->epoch != epoch)
    return;
  graces_.erase(id);
  apply(ledger_.release(id, epoch, world_.now()), "release");
  leave_lost(id);
  end_offspring(id, "the task"); // an actor's have ended with its life
}

void BrokerCore::leave_lost(LeaseId id) {
  if (auto* actor = actors_.holder_of(id); actor != nullptr && actor->lost)
    actor_down(*actor, *std::exchange(actor->lost, std::nullopt), LifeEnd::lost_place);
}

void BrokerCore::lease_ended(const v1::LeaseEnded& message) {
  if (arrivals_.postpone(message))
    return;
  const LeaseId id{message.lease()};
  const auto* lease = ledger_.find_lease(id);
  if (lease == nullptr || lease->epoch != message.epoch()) {
    // It was lost with its device, of which others told first.
    if (message.by_itself() && message.actor() != 0)
      apply_own_end(ActorId{message.actor()}, message, true);
    return lost_holder_ended(id, message.epoch());
  }
  graces_.erase(id);
  if (message.host_memory()) {
    auto& event = log_.add(EventKind::out_of_memory, lease->name, message.text());
    *event.mutable_lease() = to_wire(*lease);
  }
  // Fails the devices first, so that nothing is placed there once the lease is free. A lease on a failed device is
  // lost, not released.
  const auto node = lease->node;
  if (message.by_itself())
    note_own_end(message);
  for (const auto index : message.lost_devices())
    fail_device(node, index, "a sticky error lost it to the process that used it");
  if (ledger_.find_lease(id) == nullptr)
    return lost_holder_ended(id, message.epoch()); // `on_lost` has done the rest
  forget_move(id);
  const auto ended = *lease;
  const auto code = error_in(message, Errc::lease_revoked).code();
  auto runner = take_task_lease(id);
  // Releases the lease before `actor_down`: requests that wait for it are served before an actor that restarts.
  apply(ledger_.release(id, message.epoch(), world_.now()), "release");
  if (runner)
    end_offspring(id, "the task");
  if (runner && runner->starting)
    runner->starting->deliver(
        fail(code, message.text().empty() ? "the lease ended before its runner had started" : message.text()));
  if (auto* actor = actors_.holder_of(id); actor != nullptr) {
    // A constructor that failed in the first life would fail again: the actor is not restarted. One that has lived
    // may live again when the file is back, or the memory free, that its constructor lacked.
    if (actor->state == ActorState::starting && !actor->lives.lived() && message.error() != 0
        && code != Errc::worker_died && code != Errc::lease_revoked)
      actor->no_restart = true;
    actor_down(*actor, Error{message.error() != 0 ? code : Errc::actor_died, why_ended(*actor, message.text())},
               actor->state == ActorState::stopping ? LifeEnd::asked : LifeEnd::crash);
  }
  look_at_ending_groups(ended);
}

} // namespace gpuactors
