// AgentCore: the worker processes of a node.
#include <gpuactors/agent/core/agent_core.hpp>
#include <gpuactors/agent/core/mps.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/wire/lease_end.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace gpuactors {

namespace {

/// The variables that show a process exactly these devices and units. All others of their kind are hidden.
std::map<std::string, std::optional<std::string>> visibility(const std::vector<v1::Device>& devices,
                                                             const v1::HeldLease* owner) {
  std::map<std::string, std::optional<std::string>> result;
  for (const auto& kind : accelerator_kinds()) {
    std::vector<std::string> units;
    if (kind.name == "gpus") {
      // By UUID: numbers would count only the devices that are visible to this process.
      for (const auto& device : devices)
        if (device.kind() == "cuda")
          units.push_back(device.uuid());
    } else if (owner != nullptr) {
      const auto& held = owner->lease().units();
      if (const auto own = held.find(std::string{kind.name}); own != held.end())
        for (const auto id : own->second.ids())
          units.push_back(std::to_string(id));
    }
    result[std::string{kind.variable}] = visible_units(units);
  }
  return result;
}

} // namespace

const AgentCore::WorkerRecord* AgentCore::lender_of(const v1::Lease& lease) const {
  const auto lender = leases_.find(LeaseId{lease.parent()});
  if (lender == leases_.end())
    return nullptr;
  const auto worker = workers_.find(lender->second.worker);
  return worker != workers_.end() ? &worker->second : nullptr;
}

AgentCore::WorkerRecord& AgentCore::worker_for(const v1::HeldLease& held, const TypeWanted& type,
                                               const Isolated& isolated) {
  const auto& lease = held.lease();
  // Borrowed shares count against the quota of the parent lease, which the parent's process keeps.
  if (const auto* lender = lender_of(lease); lender != nullptr && !lender->ending && !isolated.wanted)
    return workers_.at(lender->number);
  std::vector<v1::Device> devices;
  for (const auto& granted : lease.devices())
    for (const auto& device : options_.node.devices())
      if (device.index() == granted.index())
        devices.push_back(device);
  const auto program = options_.programs.find(type);
  if (isolated.wanted || devices.size() > 1 || lease.units_size() > 0)
    return start_worker(fmt::format("lease {}", lease.id()), std::move(devices), program, &held, isolated.environment,
                        lease.name());
  return shared_worker(std::move(devices), program);
}

AgentCore::WorkerRecord& AgentCore::shared_worker(std::vector<v1::Device> devices,
                                                  const ProgramTable::Program& program) {
  auto key = devices.empty() ? std::string{"no device"} : fmt::format("device {}", devices.front().index());
  if (options_.programs.size() > 1)
    key += fmt::format(", {}", program->name);
  if (const auto known = by_key_.find(key); known != by_key_.end())
    return workers_.at(known->second);
  return start_worker(key, std::move(devices), program, nullptr, {}, key);
}

void AgentCore::try_on(int device, const ProgramTable::Program& program) {
  for (const auto& known : options_.node.devices())
    if (known.index() == device)
      shared_worker({known}, program);
}

AgentCore::WorkerRecord& AgentCore::start_worker(std::string key, std::vector<v1::Device> devices,
                                                 ProgramTable::Program program, const v1::HeldLease* owner,
                                                 const Environment& environment, std::string purpose) {
  WorkerCommand command;
  command.number = ++last_worker_;
  command.program = program->number;
  command.purpose = std::move(purpose);
  command.environment = visibility(devices, owner);
  // Tells the process that it is not alone on its device: a fraction then takes turns with the device's other
  // processes, whichever SMs it would get.
  std::optional<std::string> shares;
  if (owner != nullptr)
    shares = "a process of its own";
  else if (options_.programs.size() > 1)
    shares = "the node's other programs have processes of their own";
  command.environment["GPUACTORS_ISOLATED"] = shares;
  if (owner != nullptr && world_.mps_runs())
    command.environment.merge(mps_environment(owner->lease(), devices));
  // Users' variables come last: `emplace` keeps them from overriding those that limit the process.
  for (const auto& [name, value] : environment)
    command.environment.emplace(name, value);
  // A wish, not a limit: users may say otherwise.
  const bool on_gpu = std::any_of(devices.begin(), devices.end(), [](const auto& one) { return one.kind() == "cuda"; });
  if (owner != nullptr && on_gpu && options_.limits_queues)
    command.environment.emplace(queues_variable, std::to_string(limits::lease_queues));
  auto& worker = workers_[command.number];
  worker.number = command.number;
  worker.key = key;
  worker.program = std::move(program);
  for (const auto& device : devices)
    worker.devices.push_back(device.index());
  if (owner != nullptr)
    worker.owner = worker.started_for = LeaseId{owner->lease().id()};
  by_key_[std::move(key)] = command.number;
  command.devices = std::move(devices);
  if (auto started = world_.start(command, owner); !started) {
    worker.failure = started.error();
    world_.wake(Duration::zero(), AgentWake::worker_failed, command.number);
  } else {
    world_.wake(limits::worker_start, AgentWake::worker_start, command.number);
  }
  watch_memory();
  return worker;
}

Result<void> AgentCore::worker_up(const v1::WorkerHello& message, const ContactPtr& control) {
  const auto found = workers_.find(message.worker());
  if (found == workers_.end() || found->second.ending || control == nullptr)
    return fail(Errc::not_found, fmt::format("worker {} is not expected", message.worker()));
  auto& worker = found->second;
  note_start(worker);
  worker.control = control;
  worker.pid = message.pid();
  worker.address = to_string(Endpoint{options_.host, static_cast<std::uint16_t>(message.port())});
  world_.watch(control, worker.number);
  for (const auto& order : std::exchange(worker.orders, {}))
    order(control);
  return {};
}

void AgentCore::worker_lost(std::uint64_t number) {
  // The worker may be frozen rather than dead: its leases are free only when the process is gone.
  const auto worker = workers_.find(number);
  if (worker == workers_.end())
    return;
  worker->second.lost = true;
  if (worker->second.exit)
    return bury(number, *worker->second.exit);
  // It exits, and its other connections may still have something to carry.
  if (worker->second.leaves)
    return;
  if (!worker->second.ending)
    worker->second.owner = LeaseId{};
  kill_worker(worker->second);
}

void AgentCore::free_key(const WorkerRecord& worker) {
  if (const auto known = by_key_.find(worker.key); known != by_key_.end() && known->second == worker.number)
    by_key_.erase(known);
}

void AgentCore::kill_worker(WorkerRecord& worker) {
  worker.ending = true;
  free_key(worker);
  world_.kill(worker.number);
}

void AgentCore::dismiss(WorkerRecord& worker) {
  if (worker.ending)
    return;
  if (worker.control == nullptr)
    return kill_worker(worker);
  // Answers on their way to slow callers, the ends of actors and the last spans would be lost with it.
  worker.ending = worker.leaves = true;
  free_key(worker);
  world_.order(worker.control, v1::EndProcess{});
  world_.wake(limits::last_words, AgentWake::worker_end, worker.number);
}

void AgentCore::worker_exited(std::uint64_t number, const std::string& text, const LastLines& lines) {
  const auto found = workers_.find(number);
  if (found == workers_.end())
    return;
  auto& worker = found->second;
  worker.last_lines = lines;
  if (worker.control == nullptr || worker.lost)
    return bury(number, text);
  // What it said at last, such as why an actor has ended, comes over its connection, and this news another way.
  if (!worker.ending)
    worker.owner = LeaseId{};
  worker.ending = true;
  free_key(worker);
  worker.exit = text;
  world_.wake(limits::exit_patience, AgentWake::worker_exit, number);
}

void AgentCore::bury(std::uint64_t number, std::string text) { // NOLINT(*-unnecessary-value-param): of the record
  const auto worker = workers_.extract(number);
  tasks_.ended(number);
  if (worker.empty())
    return;
  world_.worker_ended(number);
  const auto& record = worker.mapped();
  memory_.stale = memory_.stale || record.beyond_memory;
  free_key(record);
  note_failed_start(record);
  // The planned end of a worker together with its own lease, or with the last one in an earlier program, is not
  // reported.
  const bool planned =
      record.ending && (record.owner ? record.leases.size() <= 1 : record.retired && record.leases.empty());
  if (!planned)
    world_.notice(
        fmt::format("the worker for {} (process {}) {}{}", record.key, record.pid, text, record.last_lines.words()));
  for (const auto id : record.leases) {
    auto& lease = leases_.at(id);
    auto ended = lease.ended ? std::move(*lease.ended)
                             : lease_end(id.value(), lease.held.lease().epoch(),
                                         Error{Errc::worker_died,
                                               fmt::format("the worker process for {} {}{}", record.key, text,
                                                           record.last_lines.words_for(id, id == record.started_for))});
    report(std::move(ended));
  }
}

} // namespace gpuactors
