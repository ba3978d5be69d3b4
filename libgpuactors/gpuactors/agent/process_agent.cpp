#include <gpuactors/agent/environment.hpp>
#include <gpuactors/agent/mps.hpp>
#include <gpuactors/agent/node_agent.hpp>
#include <gpuactors/agent/process_agent.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/random_id.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/wire/lease_end.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

namespace {

std::map<std::string, Share> resources_of(const v1::Node& node) {
  std::map<std::string, Share> result;
  for (const auto& [name, units] : node.resource_units())
    result.emplace(name, Share{units});
  return result;
}

/// The variables that show a process exactly these devices and units. All others of their kind are hidden.
std::map<std::string, std::optional<std::string>> visibility(const std::vector<v1::Device>& devices,
                                                             const v1::Lease* lease) {
  std::map<std::string, std::optional<std::string>> result;
  for (const auto& kind : accelerator_kinds()) {
    std::vector<std::string> units;
    if (kind.name == "gpus") {
      // By UUID: numbers would count only the devices that are visible to this process.
      for (const auto& device : devices)
        if (device.kind() == "cuda")
          units.push_back(device.uuid());
    } else if (lease != nullptr) {
      if (const auto held = lease->units().find(std::string{kind.name}); held != lease->units().end())
        for (const auto id : held->second.ids())
          units.push_back(std::to_string(id));
    }
    result[std::string{kind.variable}] = visible_units(units);
  }
  return result;
}

/// The log source of a lease's holder.
LogSource source_of(const v1::HeldLease& held) {
  if (!held.has_actor())
    return {LogSource::Kind::task, 0, held.lease().name()};
  const auto& spec = held.actor().spec();
  auto name = spec.name().empty() ? spec.type() : spec.name();
  if (!spec.name_space().empty())
    name = spec.name_space() + "/" + name;
  return {LogSource::Kind::actor, held.actor().actor(), std::move(name)};
}

} // namespace

ProcessAgent::ProcessAgent(caf::actor_config& config, ProcessAgentOptions options)
  : Guarded(config, options.lanes), options_(std::move(options)), id_(random_id()),
    instances_(resources_of(options_.node)) {
  // nop
}

AgentHandle::behavior_type ProcessAgent::make_behavior() {
  return {
      [this](const v1::StartRunner& order) {
        v1::HeldLease held;
        held.set_client(order.client());
        held.set_client_request(order.client_request());
        start(order, std::move(held), Isolated{order.isolated(), order.environment()});
      },
      [this](const v1::StartActor& order, const Payload& config) {
        v1::HeldLease held;
        held.set_client(order.client());
        held.set_client_request(order.client_request());
        *held.mutable_actor() = order;
        held.mutable_actor()->clear_lease();
        if (const auto bytes = config.encoded()) {
          held.set_config_type(std::string{bytes->type_name()});
          held.set_config(std::string{bytes->bytes()});
        }
        const bool isolated = order.spec().isolated() || order.request().isolated();
        start(order, std::move(held), Isolated{isolated, order.request().environment()}, config);
      },
      [this](const v1::EndLease& order) { end(order); },
      [this](const v1::LeaseStarted& message, const caf::strong_actor_ptr&, const caf::strong_actor_ptr&) {
        started(message);
      },
      [this](const v1::LeaseEnded& message) { ended(message); },
      [this](const v1::LeaseStuck& message) { stuck(message); },
      [this](const v1::WorkerHello& message, const caf::strong_actor_ptr& control) {
        return worker_up(message, control);
      },
      [this](const v1::WorkerExited& message) { worker_exited(message); },
      [this](const v1::PeerDown& message) { worker_lost(message.peer()); },
      [this](const v1::LinkChanged&, const caf::strong_actor_ptr& broker) { link_changed(broker); },
      [this](const v1::Tick& message) { due(static_cast<Due>(message.what()), message.id()); },
      [this](const v1::ReadLog& message) { return read_log(message); },
      [this](const v1::ActorSaved& message) { saved(message); },
      [this](const v1::HolderUsage& message) { used(message); },
      [this](const v1::DeviceFault& message) { device_failed(message); },
      [this](const v1::DeviceUse& message) { device_used(message); },
      [this](const v1::DrainNode& message) { leave(message); },
      [this](const v1::Goodbye&) { say_goodbye(); },
  };
}

void ProcessAgent::on_exit() {
  options_.launcher = nullptr;
  options_.read_log = nullptr;
  readers_.clear();
  broker_ = nullptr;
  workers_.clear();
  leases_.clear();
}

// -- leases ---------------------------------------------------------------------------------------

template <class Message, class... Ins>
void ProcessAgent::start(Message order, v1::HeldLease held, const Isolated& isolated, const Ins&... message) {
  const LeaseId id{order.lease().id()};
  if (leases_.count(id) > 0)
    return;
  if (auto refused = refuse_failed(order.lease()))
    return report(std::move(*refused));
  if (auto checked = check_environment(isolated.environment); !checked)
    return report(lease_end(order.lease().id(), order.lease().epoch(), checked.error()));
  if (const auto lender = leases_.find(LeaseId{order.lease().parent()});
      lender != leases_.end() && lender->second.ended && !isolated.wanted)
    return report(lease_end(order.lease().id(), order.lease().epoch(),
                            Error{Errc::lease_revoked, "the lease that it was to borrow from is ending"}));
  if (const auto refused = take_units(instances_, *order.mutable_lease()))
    return report(*refused);
  *held.mutable_lease() = order.lease();
  const auto& lease = order.lease();
  const auto source = source_of(held);
  // No log line of this lease can be older than this.
  const auto since = std::chrono::system_clock::now();
  auto& worker = worker_for(lease, isolated, source);
  options_.sources->add_holder(worker.number, id, source, since);
  auto& record = leases_[id];
  record.held = std::move(held);
  record.worker = worker.number;
  worker.leases.insert(id);
  Order send = [order = std::move(order), message...](const caf::strong_actor_ptr& to) {
    caf_version::post(to, order, message...);
  };
  if (worker.control != nullptr)
    send(worker.control);
  else
    worker.orders.push_back([this, id, send = std::move(send)](const caf::strong_actor_ptr& to) {
      if (leases_.count(id) > 0)
        send(to);
    });
}

ProcessAgent::WorkerRecord& ProcessAgent::worker_for(const v1::Lease& lease, const Isolated& isolated,
                                                     const LogSource& source) {
  // Borrowed shares count against the quota of the parent lease, which the parent's process keeps.
  if (const auto lender = leases_.find(LeaseId{lease.parent()}); lender != leases_.end() && !isolated.wanted)
    if (const auto worker = workers_.find(lender->second.worker); worker != workers_.end() && !worker->second.ending)
      return worker->second;
  std::vector<v1::Device> devices;
  for (const auto& granted : lease.devices())
    for (const auto& device : options_.node.devices())
      if (device.index() == granted.index())
        devices.push_back(device);
  if (isolated.wanted || devices.size() > 1 || lease.units_size() > 0)
    return start_worker(fmt::format("lease {}", lease.id()), std::move(devices), &lease, isolated.environment,
                        lease.name(), &source);
  auto key = devices.empty() ? std::string{"no device"} : fmt::format("device {}", devices.front().index());
  if (const auto known = by_key_.find(key); known != by_key_.end())
    return workers_.at(known->second);
  return start_worker(key, std::move(devices), nullptr, {}, key, nullptr);
}

ProcessAgent::WorkerRecord& ProcessAgent::start_worker(std::string key, std::vector<v1::Device> devices,
                                                       const v1::Lease* lease, const Environment& environment,
                                                       std::string purpose, const LogSource* source) {
  WorkerCommand command;
  command.number = ++last_worker_;
  options_.sources->add_worker(
      command.number, source != nullptr ? *source : LogSource{LogSource::Kind::worker, command.number, purpose});
  command.purpose = std::move(purpose);
  command.environment = visibility(devices, lease);
  // Tells the process that it is isolated: a fraction then takes turns with the device's other processes, whichever SMs
  // it would get.
  command.environment["GPUACTORS_ISOLATED"] = lease != nullptr ? std::optional<std::string>{"1"} : std::nullopt;
  if (lease != nullptr && options_.mps_runs())
    command.environment.merge(mps_environment(*lease, devices));
  // Users' variables come last: `emplace` keeps them from overriding those that limit the process.
  for (const auto& [name, value] : environment)
    command.environment.emplace(name, value);
  command.devices = std::move(devices);
  auto& worker = workers_[command.number];
  worker.number = command.number;
  worker.key = key;
  if (lease != nullptr)
    worker.owner = LeaseId{lease->id()};
  by_key_[std::move(key)] = command.number;
  if (auto started = options_.launcher->start(command); !started) {
    v1::WorkerExited exited;
    exited.set_worker(command.number);
    exited.set_text(fmt::format("could not be started: {}", started.error().message()));
    caf_version::post(caf::actor_cast<caf::strong_actor_ptr>(this), std::move(exited));
  } else {
    remind(limits::worker_start, Due::worker_start, command.number);
  }
  return worker;
}

void ProcessAgent::started(v1::LeaseStarted message) {
  const auto lease = leases_.find(LeaseId{message.lease()});
  if (lease == leases_.end() || lease->second.held.lease().epoch() != message.epoch())
    return;
  const auto& worker = workers_.at(lease->second.worker);
  message.set_address(worker.address);
  *lease->second.held.mutable_started() = message;
  caf_version::post(broker_, std::move(message), caf::strong_actor_ptr{}, caf::strong_actor_ptr{});
}

void ProcessAgent::end(const v1::EndLease& order) {
  const auto lease = leases_.find(LeaseId{order.lease()});
  if (lease == leases_.end()) {
    // Nothing runs under the lease: it ended before the order arrived, or the order to start it was lost.
    return report(lease_end(order.lease(), order.epoch()));
  }
  if (lease->second.held.lease().epoch() != order.epoch())
    return;
  auto& worker = workers_.at(lease->second.worker);
  if (worker.control != nullptr) {
    caf_version::post(worker.control, order);
    return;
  }
  ended(lease_end(order.lease(), order.epoch()));
}

void ProcessAgent::ended(v1::LeaseEnded message) {
  const auto lease = leases_.find(LeaseId{message.lease()});
  if (lease == leases_.end() || lease->second.held.lease().epoch() != message.epoch())
    return;
  auto& worker = workers_.at(lease->second.worker);
  const bool lost = message.lost_devices_size() > 0;
  // A sticky error costs the process, not the device, unless it happens again and again. All holders in the process
  // report the same loss: only the first report counts.
  if (!worker.ending)
    for (const auto index : message.lost_devices())
      note_loss(index);
  message.clear_lost_devices();
  if (!lost && lease->first != worker.owner) {
    report(std::move(message));
    // The parent lease may have waited for this one to end.
    const auto owner = leases_.find(worker.owner);
    if (owner != leases_.end() && owner->second.ended && worker.leases.size() == 1)
      kill_worker(worker);
    return;
  }
  // The lease is free when the process is gone. Leases that borrow from it end with it, but get a grace to stop.
  lease->second.ended = std::move(message);
  if (lost || worker.leases.size() == 1)
    return kill_worker(worker);
  for (const auto other : worker.leases) {
    if (other == worker.owner)
      continue;
    v1::EndLease order;
    order.set_lease(other.value());
    order.set_epoch(leases_.at(other).held.lease().epoch());
    order.set_grace_ms(std::chrono::milliseconds{limits::stop_grace}.count());
    caf_version::post(worker.control, std::move(order));
  }
}

void ProcessAgent::stuck(const v1::LeaseStuck& message) {
  const auto lease = leases_.find(LeaseId{message.lease()});
  if (lease == leases_.end() || lease->second.held.lease().epoch() != message.epoch())
    return;
  // A stuck thread cannot be ended from outside, but its process can.
  options_.notice(fmt::format("{}: {}", lease->second.held.lease().name(), message.text()));
  lease->second.ended = lease_end(message.lease(), message.epoch(), Error{Errc::worker_died, message.text()});
  kill_worker(workers_.at(lease->second.worker));
}

// -- reminders ------------------------------------------------------------------------------------

void ProcessAgent::remind(Duration after, Due what, std::uint64_t worker) {
  v1::Tick tick;
  tick.set_what(static_cast<std::uint32_t>(what));
  tick.set_id(worker);
  caf_version::post_later(this, after, std::move(tick));
}

void ProcessAgent::due(Due what, std::uint64_t worker) {
  const auto found = workers_.find(worker);
  switch (what) {
  case Due::registration:
    if (refused_ == registration_)
      register_node();
    break;
  case Due::worker_start:
    if (found != workers_.end() && found->second.control == nullptr)
      kill_worker(found->second);
    break;
  case Due::worker_end:
    if (found != workers_.end())
      kill_worker(found->second);
    break;
  case Due::log_readers:
    answer_readers();
    break;
  case Due::saves:
    saves_wait_ = false;
    send_saves();
    break;
  }
}

// -- workers --------------------------------------------------------------------------------------

caf::result<v1::Done> ProcessAgent::worker_up(const v1::WorkerHello& message, const caf::strong_actor_ptr& control) {
  const auto found = workers_.find(message.worker());
  if (found == workers_.end() || found->second.ending || control == nullptr)
    return to_caf(Error{Errc::not_found, fmt::format("worker {} is not expected", message.worker())});
  auto& worker = found->second;
  worker.control = control;
  worker.pid = message.pid();
  worker.address = to_string(Endpoint{options_.host, static_cast<std::uint16_t>(message.port())});
  control->get()->attach_functor([self = caf::actor_cast<caf::actor_addr>(this), number = worker.number] {
    v1::PeerDown down;
    down.set_peer(number);
    caf_version::post(caf::actor_cast<caf::strong_actor_ptr>(self), std::move(down));
  });
  auto orders = std::move(worker.orders);
  worker.orders.clear();
  for (const auto& order : orders)
    order(control);
  return v1::Done{};
}

void ProcessAgent::worker_lost(std::uint64_t number) {
  // The worker may be frozen rather than dead: its leases are free only when the process is gone.
  const auto worker = workers_.find(number);
  if (worker == workers_.end())
    return;
  if (!worker->second.ending)
    worker->second.owner = LeaseId{};
  kill_worker(worker->second);
}

void ProcessAgent::kill_worker(WorkerRecord& worker) {
  // Frees the key, so that the next lease on the device gets a new worker.
  worker.ending = true;
  if (const auto known = by_key_.find(worker.key); known != by_key_.end() && known->second == worker.number)
    by_key_.erase(known);
  options_.launcher->kill(worker.number);
}

void ProcessAgent::worker_exited(const v1::WorkerExited& message) {
  auto worker = workers_.extract(message.worker());
  tasks_.ended(message.worker());
  if (worker.empty())
    return;
  options_.sources->remove_worker(message.worker());
  const auto& record = worker.mapped();
  if (const auto known = by_key_.find(record.key); known != by_key_.end() && known->second == record.number)
    by_key_.erase(known);
  // The planned end of a worker together with its own lease is not reported.
  if (!record.owner || record.leases.size() > 1 || !record.ending)
    options_.notice(fmt::format("the worker for {} (process {}) {}", record.key, record.pid, message.text()));
  for (const auto id : record.leases) {
    auto& lease = leases_.at(id);
    auto ended = lease.ended ? std::move(*lease.ended)
                             : lease_end(id.value(), lease.held.lease().epoch(),
                                         Error{Errc::worker_died, fmt::format("the worker process for {} {}",
                                                                              record.key, message.text())});
    report(std::move(ended));
  }
}

} // namespace gpuactors
