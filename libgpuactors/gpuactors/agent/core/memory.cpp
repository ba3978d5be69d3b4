// AgentCore: the host memory of the node, and the ends of workers that use too much of it.
#include <gpuactors/agent/core/agent_core.hpp>
#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/wire/lease_end.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

MemoryRules AgentCore::rules_of(const AgentOptions& options) {
  if (!options.memory_threshold)
    return {};
  MemoryRules rules{options.node.name(), host_memory_in(options.node.resource_units()), 0, *options.memory_threshold};
  for (const auto& device : options.node.devices())
    if (device.kind() == "host")
      rules.device_bytes += device.memory_bytes();
  return rules;
}

void AgentCore::watch_memory() {
  if (!memory_.rules.any() || workers_.empty() || std::exchange(memory_.watched, true))
    return;
  world_.wake(limits::memory_look, AgentWake::memory, 0);
}

void AgentCore::look_at_memory() {
  MemoryQuery query;
  for (const auto& [number, worker] : workers_)
    if (worker.control != nullptr && !worker.ending)
      query.processes.push_back({number, worker.pid});
  query.threshold = memory_.rules.has_threshold() ? memory_.rules.threshold : 0;
  query.bound_bytes = memory_.rules.bound_bytes();
  memory_.stale = false;
  world_.look_at_memory(std::move(query));
}

void AgentCore::memory_seen(const MemoryLook& look) {
  memory_.watched = false;
  std::vector<GuardedWorker> workers;
  for (const auto& seen : look.workers)
    if (const auto found = workers_.find(seen.worker); found != workers_.end() && !found->second.ending)
      workers.push_back(guarded(found->second, seen));
  auto verdicts = beyond_their_own(memory_.rules, workers);
  // What one that was ended gives back is not there before it is gone. Others come and go all the time.
  if (verdicts.empty() && !memory_.stale && !memory_comes_back()) {
    if (auto verdict = beyond_the_node(memory_.rules, look.room, workers))
      verdicts.push_back(std::move(*verdict));
    else
      tell_if_others_fill(look);
  }
  for (const auto& [number, why] : verdicts)
    end_for_memory(workers_.at(number), why);
  watch_memory();
}

GuardedWorker AgentCore::guarded(const WorkerRecord& worker, const WorkerMemory& seen) const {
  GuardedWorker result;
  result.number = worker.number;
  result.private_bytes = seen.private_bytes;
  result.shared_bytes = seen.shared_bytes;
  result.name = fmt::format("the worker for {}", worker.key);
  for (const auto id : worker.leases) {
    const auto& lease = leases_.at(id).held.lease();
    // What is borrowed from a lease in the same process is a part of that.
    if (worker.leases.count(LeaseId{lease.parent()}) > 0)
      continue;
    result.asked_bytes += host_memory_in(lease.resource_units());
    for (const auto& grant : lease.devices())
      for (const auto& device : options_.node.devices())
        if (device.index() == grant.index() && device.kind() == "host")
          result.device_bytes += grant.memory_bytes();
    if (id == worker.owner) {
      result.own = true;
      result.name = fmt::format("the process of \"{}\"", lease.name());
    }
  }
  return result;
}

bool AgentCore::memory_comes_back() const {
  for (const auto& [number, worker] : workers_)
    if (worker.beyond_memory && world_.now() - *worker.beyond_memory < limits::memory_patience)
      return true;
  return false;
}

void AgentCore::tell_if_others_fill(const MemoryLook& look) {
  const bool full = is_full(memory_.rules, look.room);
  if (full && !memory_.told)
    world_.notice(fmt::format("{}, and no worker here uses enough of it for its end to help", describe(*look.room)));
  memory_.told = full;
}

void AgentCore::end_for_memory(WorkerRecord& worker, const std::string& why) {
  world_.notice(why);
  bool first = true;
  for (const auto id : worker.leases) {
    auto& lease = leases_.at(id);
    if (lease.ended)
      continue;
    lease.ended = lease_end(id.value(), lease.held.lease().epoch(), Error{Errc::worker_died, why});
    // One event for the process.
    lease.ended->set_host_memory(std::exchange(first, false));
  }
  worker.beyond_memory = world_.now();
  worker.ending = true;
  free_key(worker);
  // Its calls are answered with the reason: without that, callers would learn only that the process is gone.
  v1::EndProcess order;
  order.set_text(why);
  world_.order(worker.control, order);
  world_.wake(limits::memory_grace, AgentWake::worker_end, worker.number);
}

} // namespace gpuactors
