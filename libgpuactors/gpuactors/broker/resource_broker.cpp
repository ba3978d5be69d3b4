// The broker's conversation: what clients and agents ask, and what the ledger's answers mean for them.
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/broker/convert.hpp>
#include <gpuactors/broker/resource_broker.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

namespace {

// The ledger counts resources and does not know which of them come in whole units.
Result<ResourceRequest> read_request(const v1::ResourceRequest& message) {
  GPUACTORS_LET(request, from_wire(message));
  GPUACTORS_TRY(check_whole_units(request.resources));
  return std::move(request);
}

} // namespace

ResourceBroker::ResourceBroker(caf::actor_config& config, std::shared_ptr<std::ostream> recording)
  : BrokerHandle::base(config) {
  if (recording != nullptr)
    ledger_.record(std::move(recording));
}

BrokerHandle::behavior_type ResourceBroker::make_behavior() {
  return {
      [this](const v1::RegisterNode& message, const caf::strong_actor_ptr& agent) { return add_node(message, agent); },
      [this](const v1::AcquireLease& message, const caf::strong_actor_ptr& client) { return acquire(message, client); },
      [this](const v1::CancelAcquire& message, const caf::strong_actor_ptr& client) { cancel(message, client); },
      [this](const v1::ReleaseLease& message) { release(message); },
      [this](const v1::SpawnActor& message, const Payload& config) { return spawn_actor(message, config); },
      [this](const v1::FindActor& message) { return find(message); },
      [this](const v1::KillActor& message) { return kill(message); },
      [this](const v1::GetState& message) { return state(message); },
      [this](const v1::LeaseEnded& message) { lease_ended(message); },
      [this](const v1::SubmitGroup& message) { return submit_group(message); },
      [this](const v1::ReleaseGroup& message) { return release_group(message); },
      [this](const v1::DrainNode& message) { return drain(message); },
      [this](const v1::Tick&) {
        tick_due_ = never;
        apply(ledger_.advance(Clock::now()));
      },
  };
}

void ResourceBroker::on_exit() {
  ledger_.finish();
  nodes_.clear();
  task_requests_.clear();
  client_requests_.clear();
  task_leases_.clear();
  actors_.clear();
  groups_.clear();
}

// -- nodes ----------------------------------------------------------------------------------------

caf::result<v1::Done> ResourceBroker::add_node(const v1::RegisterNode& message, const caf::strong_actor_ptr& agent) {
  const auto& node = message.node();
  auto events = ledger_.add_node(from_wire(node), Clock::now());
  if (!events)
    return to_caf(events.error());
  nodes_[node.name()] = NodeRecord{node, caf::actor_cast<AgentHandle>(agent)};
  log_.add(Clock::now(), "node_added", node.name());
  apply(*events);
  return v1::Done{};
}

// -- leases for tasks -----------------------------------------------------------------------------

caf::result<v1::Granted, caf::strong_actor_ptr, caf::strong_actor_ptr>
ResourceBroker::acquire(const v1::AcquireLease& message, const caf::strong_actor_ptr& client) {
  auto request = read_request(message.request());
  if (!request)
    return to_caf(request.error());
  if (auto checked = check_group(request->group); !checked)
    return to_caf(checked.error());
  const auto id = RequestId{++last_request_};
  auto promise = make_response_promise<v1::Granted, caf::strong_actor_ptr, caf::strong_actor_ptr>();
  TaskRequest waiting;
  waiting.client = client;
  waiting.client_request = message.client_request();
  waiting.key = fmt::format("{}/{}", static_cast<const void*>(client.get()), deterministic_bytes(message.request()));
  waiting.group = request->group;
  waiting.promise = promise;
  client_requests_[{client.get(), message.client_request()}] = id;
  task_requests_.emplace(id, std::move(waiting));
  apply(ledger_.submit(id, std::move(*request), Clock::now()));
  return promise;
}

void ResourceBroker::cancel(const v1::CancelAcquire& message, const caf::strong_actor_ptr& client) {
  // One that was granted meanwhile is on its way: the client gives it back when it arrives.
  const auto found = client_requests_.find({client.get(), message.client_request()});
  if (found == client_requests_.end() || !ledger_.is_pending(found->second))
    return;
  const auto id = found->second;
  take_task_request(id)->promise.deliver(to_caf(Error{Errc::cancelled, "the request was withdrawn"}));
  apply(ledger_.cancel(id, Clock::now()), "cancel");
}

std::optional<ResourceBroker::TaskRequest> ResourceBroker::take_task_request(RequestId id) {
  auto found = task_requests_.extract(id);
  if (found.empty())
    return std::nullopt;
  client_requests_.erase({found.mapped().client.get(), found.mapped().client_request});
  return std::move(found.mapped());
}

void ResourceBroker::release(const v1::ReleaseLease& message) {
  const auto* lease = ledger_.find_lease(LeaseId{message.lease()});
  if (lease == nullptr || lease->epoch != message.epoch())
    return;
  end_lease(*lease, 0, std::nullopt);
}

void ResourceBroker::start_runner(const Lease& lease, const TaskRequest& request) {
  v1::StartRunner order;
  *order.mutable_lease() = to_wire(lease);
  task_leases_[lease.id] = TaskLease{request.client, request.key, false};
  caf_version::ask(this, nodes_.at(lease.node).agent, order)
      .then(
          [lease = order.lease(), promise = request.promise](v1::Started&, caf::strong_actor_ptr& runner,
                                                             caf::strong_actor_ptr& control) mutable {
            v1::Granted granted;
            *granted.mutable_lease() = std::move(lease);
            promise.deliver(std::move(granted), std::move(runner), std::move(control));
          },
          [promise = request.promise](caf::error& error) mutable { promise.deliver(std::move(error)); });
}

// -- actors ---------------------------------------------------------------------------------------

caf::result<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr>
ResourceBroker::spawn_actor(const v1::SpawnActor& message, const Payload& config) {
  const auto& name = message.spec().name();
  if (!name.empty() && names_.count(name) > 0)
    return to_caf(Error{Errc::already_exists, fmt::format("there is an actor named \"{}\" already", name)});
  ActorRecord record;
  record.id = ActorId{++last_actor_};
  record.spec = message.spec();
  record.config = config;
  record.request = message.request();
  if (record.request.name().empty())
    record.request.set_name(name.empty() ? fmt::format("{}-{}", record.spec.type(), record.id.value()) : name);
  auto promise = make_response_promise<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr>();
  record.spawned = promise;
  if (!name.empty())
    names_[name] = record.id;
  auto& kept = actors_.emplace(record.id, std::move(record)).first->second;
  submit_actor(kept);
  return promise;
}

caf::result<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr>
ResourceBroker::find(const v1::FindActor& message) {
  auto* record = find_record(message.name(), message.id());
  if (record == nullptr && message.name().empty())
    return to_caf(Error{Errc::actor_died, fmt::format("actor {} has ended", message.id())});
  if (record == nullptr) {
    std::vector<std::string> known;
    for (const auto& [name, id] : names_)
      known.push_back(name);
    return to_caf(Error{Errc::not_found, fmt::format("there is no actor named \"{}\"{}", message.name(),
                                                     did_you_mean(message.name(), known))});
  }
  auto promise = make_response_promise<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr>();
  if (record->state == ActorState::alive)
    promise.deliver(info_of(*record), record->handle, record->control);
  else
    record->seekers.push_back(promise);
  return promise;
}

caf::result<v1::Done> ResourceBroker::kill(const v1::KillActor& message) {
  auto* record = find_record(message.name(), message.id());
  if (record == nullptr)
    return to_caf(Error{Errc::not_found, fmt::format("there is no actor {}",
                                                     message.name().empty() ? fmt::format("{}", message.id())
                                                                            : "named \"" + message.name() + "\"")});
  auto promise = make_response_promise<v1::Done>();
  record->killers.push_back(promise);
  record->no_restart = record->no_restart || message.no_restart();
  if (record->state == ActorState::waiting) {
    const auto request = record->waiting_for;
    actor_requests_.erase(request);
    const auto id = record->id;
    apply(ledger_.cancel(request, Clock::now()), "kill");
    forget_actor(id, Error{Errc::cancelled, "the actor was killed before it was placed"});
    return promise;
  }
  if (const auto* lease = ledger_.lease_of(record->waiting_for); lease != nullptr) {
    record->state = ActorState::stopping;
    end_lease(*lease, message.grace_ms(), record->id);
  }
  return promise;
}

void ResourceBroker::submit_actor(ActorRecord& record) {
  record.state = ActorState::waiting;
  record.waiting_for = RequestId{++last_request_};
  actor_requests_[record.waiting_for] = record.id;
  auto request = read_request(record.request);
  if (request)
    if (auto checked = check_group(request->group); !checked)
      request = fail(checked.error());
  if (!request) {
    actor_requests_.erase(record.waiting_for);
    forget_actor(record.id, request.error());
    return;
  }
  apply(ledger_.submit(record.waiting_for, std::move(*request), Clock::now()));
}

void ResourceBroker::start_actor(const Lease& lease, ActorRecord& record) {
  record.state = ActorState::starting;
  record.lease = to_wire(lease);
  actor_leases_[lease.id] = record.id;
  v1::StartActor order;
  *order.mutable_lease() = *record.lease;
  order.set_actor(record.id.value());
  *order.mutable_spec() = record.spec;
  order.set_restarts(record.restarts);
  caf_version::ask(this, nodes_.at(lease.node).agent, order, record.config)
      .then(
          [this, id = record.id](v1::Started& started, caf::strong_actor_ptr& handle, caf::strong_actor_ptr& control) {
            const auto found = actors_.find(id);
            if (found == actors_.end() || found->second.state != ActorState::starting)
              return;
            auto& actor = found->second;
            actor.state = ActorState::alive;
            actor.pid = started.pid();
            actor.handle = std::move(handle);
            actor.control = std::move(control);
            *log_.add(Clock::now(), "spawned", actor.request.name()).mutable_lease() = *actor.lease;
            auto waiting = std::move(actor.seekers);
            actor.seekers.clear();
            if (actor.spawned)
              waiting.push_back(*actor.spawned);
            actor.spawned.reset();
            for (auto& promise : waiting)
              promise.deliver(info_of(actor), actor.handle, actor.control);
          },
          [this, id = record.id](caf::error& error) {
            // The constructor or a device failed: not a death that a restart would mend.
            if (const auto found = actors_.find(id); found != actors_.end()) {
              found->second.no_restart = true;
              actor_down(id, from_caf(error));
            }
          });
}

void ResourceBroker::actor_down(ActorId id, const Error& error) {
  auto& record = actors_.at(id);
  record.handle = nullptr;
  record.control = nullptr;
  record.lease.reset();
  const bool again = !record.no_restart && record.restarts < record.spec.max_restarts();
  auto& event = log_.add(Clock::now(), again ? "restarting" : "died", record.request.name());
  event.set_reason(error.message());
  if (!again) {
    forget_actor(id, error);
    return;
  }
  ++record.restarts;
  for (auto& killer : record.killers)
    killer.deliver(v1::Done{});
  record.killers.clear();
  submit_actor(record);
}

void ResourceBroker::forget_actor(ActorId id, const Error& error) {
  auto node = actors_.extract(id);
  if (node.empty())
    return;
  auto& record = node.mapped();
  if (const auto named = names_.find(record.spec.name()); named != names_.end() && named->second == id)
    names_.erase(named);
  if (record.spawned)
    record.spawned->deliver(to_caf(error));
  for (auto& seeker : record.seekers)
    seeker.deliver(to_caf(error));
  for (auto& killer : record.killers)
    killer.deliver(v1::Done{});
}

ResourceBroker::ActorRecord* ResourceBroker::find_record(std::string_view name, std::uint64_t id) {
  if (!name.empty()) {
    const auto named = names_.find(name);
    return named == names_.end() ? nullptr : &actors_.at(named->second);
  }
  const auto found = actors_.find(ActorId{id});
  return found == actors_.end() ? nullptr : &found->second;
}

// -- the end of a lease ---------------------------------------------------------------------------

void ResourceBroker::end_lease(const Lease& lease, std::uint64_t grace_ms, std::optional<ActorId> actor) {
  v1::EndLease order;
  order.set_lease(lease.id.value());
  order.set_epoch(lease.epoch);
  order.set_grace_ms(grace_ms);
  // Tasks that run inside this lease keep it from being free: their clients are asked to let go.
  for (auto& [id, task] : task_leases_)
    if (const auto* child = ledger_.find_lease(id); child != nullptr && child->parent == lease.id && !task.reclaimed) {
      v1::ReclaimLease reclaim;
      reclaim.set_lease(id.value());
      task.reclaimed = true;
      caf_version::post(task.client, reclaim);
    }
  caf_version::ask(this, nodes_.at(lease.node).agent, order)
      .then([this](v1::LeaseEnded& ended) { lease_ended(ended); },
            [this, actor](caf::error& error) {
              // Still there after its grace: its end is reported later, whoever waits for it learns of it now.
              if (!actor)
                return;
              if (const auto found = actors_.find(*actor); found != actors_.end()) {
                for (auto& killer : found->second.killers)
                  killer.deliver(error);
                found->second.killers.clear();
              }
            });
}

void ResourceBroker::lease_ended(const v1::LeaseEnded& message) {
  const LeaseId id{message.lease()};
  const auto* lease = ledger_.find_lease(id);
  if (lease == nullptr || lease->epoch != message.epoch())
    return;
  // First, so that nothing is placed there once the lease is free. A lease on a failed device is lost, not released.
  const auto node = lease->node;
  for (const auto index : message.lost_devices())
    fail_device(node, index);
  if (ledger_.find_lease(id) == nullptr)
    return;
  const auto group = lease->group;
  task_leases_.erase(id);
  const auto holder = actor_leases_.extract(id);
  // Free first: whoever waits for it is served before an actor that starts anew.
  apply(ledger_.release(id, message.epoch(), Clock::now()), "release");
  if (!holder.empty() && actors_.count(holder.mapped()) > 0) {
    const auto code =
        message.error() != 0 ? errc_from_number(static_cast<std::uint8_t>(message.error())) : Errc::actor_died;
    actor_down(holder.mapped(), Error{code, message.text().empty() ? "the actor has ended" : message.text()});
  }
  if (const auto ending = groups_.find(group); ending != groups_.end() && !ending->second.removers.empty())
    end_group(group);
}

void ResourceBroker::fail_device(const std::string& node, int index) {
  // The ledger counts a node's devices by their place in its offer.
  const auto& devices = nodes_.at(node).node.devices();
  const auto device = std::find_if(devices.begin(), devices.end(),
                                   [&](const v1::Device& candidate) { return candidate.index() == index; });
  if (device == devices.end())
    return;
  log_.add(Clock::now(), "device_failed", fmt::format("{}/{}", node, index))
      .set_reason("a sticky error lost the device to the process that used it; it is offered again by a new process");
  apply(ledger_.fail_device(node, static_cast<int>(device - devices.begin()), Clock::now()), "fail_device");
}

} // namespace gpuactors
