// AgentCore: the programs of its workers: those that do not start, and those that change.
#include <gpuactors/agent/core/agent_core.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

namespace {

StartBlame::Device device_of(const std::vector<int>& devices) {
  return devices.empty() ? StartBlame::Device{} : StartBlame::Device{devices.front()};
}

} // namespace

// -- programs and devices with which workers do not come up ---------------------------------------

void AgentCore::note_start(const WorkerRecord& worker) {
  // One of an earlier program says nothing of the present one.
  if (!options_.programs.has(worker.program))
    return;
  for (const auto device : starts_.came_up(worker.program->number, device_of(worker.devices)))
    blame_for_starts(device);
}

void AgentCore::note_failed_start(const WorkerRecord& worker) {
  // A lease's own process may fail by what its request asks for.
  const bool failed = worker.control == nullptr && (!worker.ending || worker.late) && !worker.owner;
  if (!failed || !options_.programs.has(worker.program))
    return;
  auto device = device_of(worker.devices);
  // Without a process, nothing has become known of a device. That the machine has no room for one is nobody's fault.
  if (worker.failure) {
    starts_.not_tried(worker.program->number, device);
    if (worker.failure->code() == Errc::unavailable)
      return;
    device = {};
  }
  std::vector<int> others;
  for (const auto& other : options_.node.devices())
    if (other.fault().empty() && other.index() != device)
      others.push_back(other.index());
  const auto judged = starts_.failed(worker.program->number, device, others, world_.now());
  switch (judged.verdict) {
  case StartBlame::Verdict::none:
    break;
  case StartBlame::Verdict::device:
    blame_for_starts(*device);
    break;
  case StartBlame::Verdict::program:
    put_out_of_use(*worker.program);
    break;
  case StartBlame::Verdict::trial:
    try_on(judged.trial, worker.program);
    break;
  }
}

void AgentCore::blame_for_starts(int device) {
  put_out_of_use({device}, fmt::format("{} workers for it in a row did not come up within {} minutes",
                                       limits::device_losses, limits::device_loss_window.count()));
}

void AgentCore::put_out_of_use(const WorkerProgram& program) {
  if (!options_.programs.withdraw(program.number))
    return;
  world_.notice(fmt::format("{} workers of {} in a row did not come up within {} minutes: the node has its types no "
                            "more, until it gets SIGUSR1 and starts its programs anew",
                            limits::device_losses, program.name.empty() ? "the program" : "program " + program.name,
                            limits::device_loss_window.count()));
  tell_programs();
}

// -- programs that change -------------------------------------------------------------------------

void AgentCore::programs_changed(ProgramTable programs, const std::set<std::string>& seen) {
  for (const auto& device : options_.node.devices())
    if (device.fault().empty() && seen.count(device.uuid()) == 0)
      return world_.notice(fmt::format("the programs stay as they are: those that are there now do not see device {} "
                                       "({}), which the node offers",
                                       device.index(), device.uuid()));
  options_.programs = std::move(programs);
  starts_ = {};
  std::size_t leases = 0;
  for (auto& [number, worker] : workers_) {
    if (worker.owner || worker.ending)
      continue;
    worker.retired = true;
    free_key(worker);
    leases += worker.leases.size();
    if (worker.leases.empty())
      dismiss(worker);
  }
  world_.notice(
      fmt::format("what starts from now on runs in the new programs; {} leases go on in the old ones", leases));
  tell_programs();
}

void AgentCore::tell_programs() {
  ++generation_;
  if (broker_ == nullptr)
    return; // the next registration says it
  v1::NodePrograms message;
  message.set_node(options_.node.name());
  message.set_agent(options_.id);
  message.set_programs(generation_);
  if (options_.programs.types())
    *message.mutable_types() = *options_.programs.types();
  tell_broker(std::move(message));
}

} // namespace gpuactors
