// The broker's messages, and leases for tasks.
#include <gpuactors/broker/convert.hpp>
#include <gpuactors/broker/requests.hpp>
#include <gpuactors/broker/resource_broker.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace {

LedgerOptions ledger_options(std::uint64_t last_id) {
  LedgerOptions options;
  options.last_id = last_id;
  return options;
}

} // namespace

ResourceBroker::ResourceBroker(caf::actor_config& config, BrokerOptions options)
  : BrokerHandle::base(config), options_(std::move(options)), ledger_(ledger_options(options_.last_id)),
    last_request_(options_.last_id), last_actor_(options_.last_id), last_group_(options_.last_id) {
  if (options_.recording != nullptr)
    ledger_.record(options_.recording);
}

BrokerHandle::behavior_type ResourceBroker::make_behavior() {
  if (options_.settle > Duration::zero()) {
    settling_ = true;
    apply(ledger_.expect_nodes(true, Clock::now()));
    v1::Tick tick;
    tick.set_id(tick_settled);
    caf_version::post_later(this, options_.settle, tick);
    load();
  }
  return {
      [this](const v1::RegisterNode& message, const caf::strong_actor_ptr& agent) { return add_node(message, agent); },
      [this](const v1::Hello& message, const caf::strong_actor_ptr& port) { return hello(message, port); },
      [this](const v1::AcquireLease& message) { return acquire(message); },
      [this](const v1::CancelAcquire& message) { cancel(message); },
      [this](const v1::ReleaseLease& message) { release(message); },
      [this](const v1::SpawnActor& message, const Payload& config) { return spawn_actor(message, config); },
      [this](const v1::FindActor& message) { return find(message); },
      [this](const v1::KillActor& message) { return kill(message); },
      [this](const v1::GetState& message) { return state(message); },
      [this](const v1::LeaseStarted& message, caf::strong_actor_ptr holder, caf::strong_actor_ptr control) {
        lease_started(message, holder, control);
      },
      [this](const v1::LeaseEnded& message) { lease_ended(message); },
      [this](const v1::LeaseStuck& message) { stuck(message); },
      [this](const v1::SubmitGroup& message) { return submit_group(message); },
      [this](const v1::ReleaseGroup& message) { return release_group(message); },
      [this](const v1::DrainNode& message) { return drain(message); },
      [this](const v1::PeerDown& message) { peer_down(message.peer()); },
      [this](const v1::Tick& message) {
        if (message.id() == tick_settled)
          return settled();
        if (message.id() == tick_commit)
          return commit();
        if (message.id() == tick_emptying) {
          emptying_ = false;
          return empty_nodes();
        }
        if (message.id() == tick_due)
          return look_at_due();
        if (message.id() == tick_turn)
          return make_way_again();
        if (Clock::now() < tick_due_)
          return; // an earlier one has overtaken it
        tick_due_ = never;
        apply(ledger_.advance(Clock::now()));
      },
      [this](const v1::GetTypes&) -> caf::result<v1::TypeCatalog> { return types(); },
      [this](const v1::ActorSaved& message) { saved(message); },
      [this](const v1::HolderUsage& message) { used(message); },
      [this](const v1::Withdraw& message) { return withdraw(message); },
      [this](const v1::HeldAhead& message) { held_ahead(message); },
      [this](const v1::DeviceFault& message) { devices_failed(message); },
      [this](const v1::DeviceUse& message) { devices_used(message); },
      [this](const v1::Goodbye& message) { return goodbye(message); },
  };
}

void ResourceBroker::on_exit() {
  ledger_.finish();
  peers_.clear();
  nodes_.clear();
  clients_.clear();
  task_requests_.clear();
  client_requests_.clear();
  task_leases_.clear();
  actors_.clear();
  groups_.clear();
  arrivals_.clear();
  early_finds_.clear();
  early_kills_.clear();
  if (commit_due_)
    commit();
}

// -- requests -------------------------------------------------------------------------------------

caf::result<v1::Granted, caf::strong_actor_ptr, caf::strong_actor_ptr>
ResourceBroker::acquire(const v1::AcquireLease& message) {
  if (clients_.count(message.client()) == 0)
    return to_caf(Error{Errc::unavailable, "the broker does not know the client: its connection was lost"});
  auto request = read_request(message.request());
  if (!request)
    return to_caf(request.error());
  if (auto checked = check_group(request->group); !checked)
    return to_caf(checked.error());
  const auto id = RequestId{++last_request_};
  auto promise = make_response_promise<v1::Granted, caf::strong_actor_ptr, caf::strong_actor_ptr>();
  TaskRequest waiting;
  waiting.client = message.client();
  waiting.client_request = message.client_request();
  waiting.key = fmt::format("{}/{}", message.client(), deterministic_bytes(message.request()));
  waiting.group = request->group;
  waiting.isolated = message.request().isolated();
  waiting.environment = message.request().environment();
  waiting.promise = promise;
  client_requests_[{message.client(), message.client_request()}] = id;
  reserve_ids(id.value());
  task_requests_.emplace(id, std::move(waiting));
  apply(ledger_.submit(id, std::move(*request), Clock::now()));
  return promise;
}

void ResourceBroker::cancel(const v1::CancelAcquire& message) {
  // One that was granted meanwhile is on its way: the client gives it back when it arrives.
  const auto found = client_requests_.find({message.client(), message.client_request()});
  if (found == client_requests_.end() || !ledger_.is_pending(found->second))
    return;
  const auto id = found->second;
  take_task_request(id)->promise.deliver(to_caf(Error{Errc::cancelled, "the request was withdrawn"}));
  apply(ledger_.cancel(id, Clock::now()), "cancel");
}

caf::result<v1::Done> ResourceBroker::withdraw(const v1::Withdraw& message) {
  const std::pair key{message.client(), message.client_request()};
  if (settling_)
    withdrawn_.insert(key);
  if (const auto spawn = spawns_.find(key); spawn != spawns_.end()) {
    auto& actor = actors_.at(spawn->second);
    if (actor.shared)
      return v1::Done{};
    actor.no_restart = true;
    if (actor.state != ActorState::stopping)
      kill(actor, std::chrono::milliseconds{limits::stop_grace}.count());
  } else if (const auto group = submitted_groups_.find(key);
             group != submitted_groups_.end() && !groups_.at(group->second).ending) {
    end_group(group->second);
  }
  return v1::Done{};
}

std::optional<ResourceBroker::TaskRequest> ResourceBroker::take_task_request(RequestId id) {
  auto found = task_requests_.extract(id);
  if (found.empty())
    return std::nullopt;
  client_requests_.erase({found.mapped().client, found.mapped().client_request});
  return std::move(found.mapped());
}

// -- leases ---------------------------------------------------------------------------------------

void ResourceBroker::start_runner(const Lease& lease, const TaskRequest& request) {
  auto& held = task_leases_[lease.id];
  held.client = request.client;
  held.key = request.key;
  held.starting = request.promise;
  v1::StartRunner order;
  *order.mutable_lease() = to_wire(lease);
  order.set_client(request.client);
  order.set_client_request(request.client_request);
  order.set_isolated(request.isolated);
  *order.mutable_environment() = request.environment;
  caf_version::post(nodes_.at(lease.node).agent, std::move(order));
}

void ResourceBroker::lease_started(const v1::LeaseStarted& message, caf::strong_actor_ptr& holder,
                                   caf::strong_actor_ptr& control) {
  const LeaseId id{message.lease()};
  const auto* lease = ledger_.find_lease(id);
  if (lease == nullptr || lease->epoch != message.epoch())
    return;
  if (const auto actor = actor_leases_.find(id); actor != actor_leases_.end())
    return actor_started(actors_.at(actor->second), message, holder, control);
  const auto found = task_leases_.find(id);
  if (found == task_leases_.end() || !found->second.starting)
    return;
  auto promise = *std::exchange(found->second.starting, std::nullopt);
  v1::Granted granted;
  *granted.mutable_lease() = to_wire(*lease);
  granted.set_address(message.address());
  promise.deliver(std::move(granted), std::move(holder), std::move(control));
}

void ResourceBroker::release(const v1::ReleaseLease& message) {
  const auto* lease = ledger_.find_lease(LeaseId{message.lease()});
  if (lease == nullptr) {
    // Its node may bring it back yet.
    for (auto& [id, client] : clients_)
      client.claimed.erase(LeaseId{message.lease()});
    return;
  }
  if (lease->epoch != message.epoch() || task_leases_.count(lease->id) == 0)
    return;
  end_task_lease(lease->id);
}

void ResourceBroker::end_task_lease(LeaseId id) {
  auto& held = task_leases_.at(id);
  if (!std::exchange(held.ending, true))
    tell_agent_to_end(*ledger_.find_lease(id), std::chrono::milliseconds{limits::stop_grace}.count());
}

void ResourceBroker::tell_agent_to_end(const Lease& lease, std::uint64_t grace_ms) {
  v1::EndLease order;
  order.set_lease(lease.id.value());
  order.set_epoch(lease.epoch);
  order.set_grace_ms(grace_ms);
  if (const auto node = nodes_.find(lease.node); node != nodes_.end() && node->second.agent != nullptr)
    caf_version::post(node->second.agent, std::move(order));
}

void ResourceBroker::lease_ended(const v1::LeaseEnded& message) {
  const LeaseId id{message.lease()};
  const auto* lease = ledger_.find_lease(id);
  if (lease == nullptr || lease->epoch != message.epoch())
    return;
  // First, so that nothing is placed there once the lease is free. A lease on a failed device is lost, not released.
  const auto node = lease->node;
  for (const auto index : message.lost_devices())
    fail_device(node, index, "a sticky error lost it to the process that used it");
  if (ledger_.find_lease(id) == nullptr)
    return; // lost with the device, and told
  forget_move(id);
  const auto group = lease->group;
  const auto code =
      message.error() != 0 ? errc_from_number(static_cast<std::uint8_t>(message.error())) : Errc::lease_revoked;
  auto runner = task_leases_.extract(id);
  const auto holder = actor_leases_.extract(id);
  // Free first: whoever waits for it is served before an actor that starts anew.
  apply(ledger_.release(id, message.epoch(), Clock::now()), "release");
  if (!runner.empty() && runner.mapped().starting)
    runner.mapped().starting->deliver(
        to_caf(Error{code, message.text().empty() ? "the lease ended before its runner had started" : message.text()}));
  if (!holder.empty())
    if (const auto actor = actors_.find(holder.mapped()); actor != actors_.end()) {
      // Its constructor failed in its first life: no death that a restart would mend. One that has lived may live again
      // when the file is back, or the memory free, that it lacked.
      if (actor->second.state == ActorState::starting && !actor->second.lives.lived() && message.error() != 0
          && code != Errc::worker_died && code != Errc::lease_revoked)
        actor->second.no_restart = true;
      actor_down(holder.mapped(),
                 Error{message.error() != 0 ? code : Errc::actor_died,
                       message.text().empty() ? "the actor has ended" : message.text()},
                 actor->second.state == ActorState::stopping ? LifeEnd::asked : LifeEnd::crash);
    }
  if (const auto ending = groups_.find(group); ending != groups_.end() && ending->second.ending)
    end_group(group);
}

} // namespace gpuactors
