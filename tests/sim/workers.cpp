// Worker processes of a simulated cluster, and what runs in them: played.
#include <gpuactors/wire/lease_end.hpp>

#include <fmt/format.h>
#include <sim/parts.hpp>

#include <algorithm>

namespace simulation {

// -- worker processes -----------------------------------------------------------------------------

std::shared_ptr<Cluster::Process> Cluster::process_of(Node& node, std::uint64_t number) {
  const auto known = node.processes.find(number);
  return known != node.processes.end() ? known->second : nullptr;
}

void Cluster::start_process(Node& node, const WorkerCommand& command, std::uint64_t owner) {
  auto process = std::make_shared<Process>(node);
  process->number = command.number;
  process->owner = owner;
  process->types = node.programs.at(command.program);
  process->generation = node.generation;
  node.processes[command.number] = process;
  // Some never come up, or die before.
  if (faults_.lost_workers > 0 && !calm_ && chance(3)) {
    ++coverage_["worker did not come up"];
    if (chance(50))
      time_.at(time_.now() + soon(30), [this, process] { exit(process); });
    return;
  }
  v1::WorkerHello hello;
  hello.set_worker(command.number);
  hello.set_pid(1);
  hello.set_port(2);
  time_.at(time_.now() + soon(40), [this, process, hello] {
    to_agent(process, [this, process, hello](AgentCore& core) {
      if (!core.worker_up(hello, process))
        exit(process); // it ends when nobody waits for it
    });
  });
}

void Cluster::to_worker(const std::shared_ptr<Process>& process, std::function<void()> what) {
  process->last_to_worker = std::max(process->last_to_worker, time_.now() + soon(5));
  time_.at(process->last_to_worker, [process, what = std::move(what)] {
    if (process->alive)
      what();
  });
}

void Cluster::to_agent(const std::shared_ptr<Process>& process, std::function<void(AgentCore&)> what) {
  if (!process->alive)
    return;
  process->last_to_agent = std::max(process->last_to_agent, time_.now() + soon(5));
  // What a process has sent before it died may still arrive, even after the agent knows of its end.
  at_agent(process->node, process->last_to_agent - time_.now(), [process, what = std::move(what)](AgentCore& core) {
    if (!process->connection_lost)
      what(core);
  });
}

void Cluster::exit(std::shared_ptr<Process> process) { // NOLINT(*-unnecessary-value-param): of the map
  if (!std::exchange(process->alive, false))
    return;
  auto& node = process->node;
  note(fmt::format("worker {} of {} ends", process->number, node.offer.name()));
  for (const auto lease : std::exchange(process->leases, {})) {
    node.held.erase(lease);
    unclaim(lease);
  }
  process->running.clear();
  node.processes.erase(process->number);
  // What it has said comes before the end of its connection, unless that was cut.
  const auto said = std::max(process->last_to_agent, time_.now()) - time_.now();
  const bool in_order = chance(80);
  const auto lost_in = in_order ? said + soon(5) : soon(20);
  if (in_order && process->watched)
    for (const auto& own : process->told)
      node.own_ends.push_back(own);
  at_agent(node, lost_in, [process](AgentCore& core) {
    process->connection_lost = true;
    if (process->watched)
      core.worker_lost(process->number);
  });
  at_agent(node, soon(20), [process](AgentCore& core) { core.worker_exited(process->number, "was killed"); });
}

void Cluster::unclaim(std::uint64_t lease) {
  for (auto& client : clients_)
    client->leases.erase(lease);
}

// -- what runs in workers -------------------------------------------------------------------------

void Cluster::hold(const std::shared_ptr<Process>& process, const v1::HeldLease& held) {
  auto& node = process->node;
  const auto id = held.lease().id();
  if (!seen_.insert(id).second)
    violations_.push_back(fmt::format("lease {} was started twice", id));
  note(fmt::format("node {} starts {}", node.offer.name(), id));
  if (held.has_actor())
    check_life(held);
  node.held[id] = held;
  process->leases.insert(id);
  process->running.insert(id);
  check_room(node);
  check_type(*process, held);
  time_.at(time_.now() + soon(30), [this, process, id] {
    if (process->running.count(id) == 0)
      return;
    if (!calm_ && faults_.lost_holders > 0 && chance(5))
      end(process, id, Error{chance(50) ? Errc::worker_died : Errc::task_failed, "it did not begin"});
    else
      begun(process, id);
  });
}

void Cluster::begun(const std::shared_ptr<Process>& process, std::uint64_t lease) {
  auto& held = process->node.held.at(lease);
  v1::LeaseStarted message;
  message.set_lease(lease);
  message.set_epoch(held.lease().epoch());
  *held.mutable_started() = message;
  to_agent(process, [message](AgentCore& core) { core.started(message); });
  if (const auto& link = process->node.link;
      held.has_actor() && process->node.registered && link->up && link->broker == broker_number_)
    note_lasting(held.actor());
  if (held.has_actor())
    for (int saves = 0; saves < 3; ++saves)
      time_.at(time_.now() + soon(700), [this, process, lease] { save(process, lease); });
}

void Cluster::note_lasting(const v1::StartActor& actor) {
  const auto& spec = actor.spec();
  const auto& request = actor.request();
  if (spec.max_restarts() >= 0 || spec.spawn_timeout_ms() > 0 || spec.spawner().lease() != 0 || request.group() != 0)
    return;
  const std::pair key{actor.client(), actor.client_request()};
  lasting_.try_emplace(key, Lasting{{}, time_.now()}).first->second.ids.insert(actor.actor());
}

void Cluster::save(const std::shared_ptr<Process>& process, std::uint64_t lease) {
  if (process->running.count(lease) == 0)
    return;
  const auto& held = process->node.held.at(lease);
  v1::ActorSaved message;
  message.set_lease(lease);
  message.set_epoch(held.lease().epoch());
  message.set_type("S");
  message.set_data(std::to_string(++last_save_));
  to_agent(process, [this, message, lease, actor = held.actor().actor()](AgentCore& core) {
    core.saved(message);
    const auto known = core.held();
    if (std::find(known.begin(), known.end(), LeaseId{lease}) != known.end())
      saved_[actor] = message.data();
  });
}

/// What runs under a lease has ended. Its memory is free, unless the process was started for it and goes with it.
v1::HeldLease Cluster::stop_running(const std::shared_ptr<Process>& process, std::uint64_t lease) {
  auto held = process->node.held.at(lease);
  process->running.erase(lease);
  unclaim(lease);
  if (process->owner != lease) {
    process->leases.erase(lease);
    process->node.held.erase(lease);
  }
  return held;
}

void Cluster::end(const std::shared_ptr<Process>& process, std::uint64_t lease, const std::optional<Error>& error) {
  note(fmt::format("holder of {} on {} ends{}", lease, process->node.offer.name(),
                   error ? ": " + error->message() : ""));
  if (error)
    ++coverage_["holder lost"];
  const auto epoch = stop_running(process, lease).lease().epoch();
  auto message = error ? lease_end(lease, epoch, *error) : lease_end(lease, epoch);
  to_agent(process, [message](AgentCore& core) { core.ended(message); });
}

void Cluster::asked_to_end(const std::shared_ptr<Process>& process, const v1::EndLease& order) {
  const auto id = order.lease();
  if (process->running.count(id) == 0)
    return; // its end is on its way
  const auto grace = std::chrono::milliseconds{order.grace_ms()};
  const bool sticks = !calm_ && faults_.lost_workers > 0 && grace > Duration::zero() && chance(10);
  if (!sticks) {
    time_.at(time_.now() + soon(50), [this, process, id] {
      if (process->running.count(id) > 0)
        end(process, id, std::nullopt);
    });
    return;
  }
  if (chance(20)) {
    ++coverage_["worker stuck"];
    return; // user code keeps the worker itself from going on
  }
  time_.at(time_.now() + grace, [this, process, order] {
    if (process->running.count(order.lease()) == 0)
      return;
    ++coverage_["holder stuck"];
    v1::LeaseStuck message;
    message.set_lease(order.lease());
    message.set_epoch(order.epoch());
    message.set_text("it does not stop");
    to_agent(process, [message](AgentCore& core) { core.stuck(message); });
  });
}

void Cluster::revoke(const std::shared_ptr<Process>& process, const v1::DeviceFault& order) {
  if (chance(20))
    return; // a call into the driver does not come back: its agent ends the process
  for (const auto lease : process->running) {
    const auto& devices = process->node.held.at(lease).lease().devices();
    const bool on = std::any_of(devices.begin(), devices.end(), [&](const v1::DeviceGrant& device) {
      return std::find(order.devices().begin(), order.devices().end(), device.index()) != order.devices().end();
    });
    if (on)
      time_.at(time_.now() + soon(50), [this, process, lease] {
        if (process->running.count(lease) > 0)
          end(process, lease, Error{Errc::lease_revoked, "its device has failed"});
      });
  }
}

/// All that runs in a process is told that it ends at once, and some of it does before. Where nothing runs, the process
/// is told to exit, which some fail to do.
void Cluster::give_up(const std::shared_ptr<Process>& process, const v1::EndProcess& order) {
  if (order.text().empty()) {
    if (!process->running.empty())
      violations_.push_back(fmt::format("worker {} is told to exit, and something runs there", process->number));
    if (calm_ || chance(80))
      time_.at(time_.now() + soon(200), [this, process] { exit(process); });
    return;
  }
  ++coverage_["ended for its memory"];
  for (const auto lease : process->running)
    if (chance(50))
      time_.at(time_.now() + soon(400), [this, process, lease] {
        if (process->running.count(lease) > 0)
          end(process, lease, Error{Errc::worker_died, "its process ends"});
      });
}

MemoryLook Cluster::memory_of(const MemoryQuery& query) {
  constexpr std::uint64_t machine = 100U << 20U;
  MemoryLook look{MemoryRoom{machine / 2, machine, false}, {}};
  for (const auto& process : query.processes)
    look.workers.push_back({process.worker, (1 + pick(40)) << 20U, 0});
  if (!calm_ && chance(faults_.full_memory))
    look.room->used_bytes = machine;
  return look;
}

void Cluster::end_itself(const std::shared_ptr<Process>& process, std::uint64_t lease) {
  auto& node = process->node;
  const auto held = stop_running(process, lease);
  const auto actor = held.actor().actor();
  note(fmt::format("actor {} ends itself under lease {}", actor, lease));
  auto message = lease_end(lease, held.lease().epoch(), Error{Errc::actor_died, "it has done its work"});
  message.set_by_itself(true);
  v1::OwnEnd own;
  own.set_actor(actor);
  *own.mutable_end() = message;
  process->told.push_back(own);
  to_agent(process, [this, &node, process, own](AgentCore& core) {
    std::erase_if(process->told, [&](const auto& told) { return told.actor() == own.actor(); });
    const auto known = core.held();
    if (std::find(known.begin(), known.end(), LeaseId{own.end().lease()}) != known.end()) {
      ++coverage_["own end"];
      node.own_ends.push_back(own);
    }
    core.ended(own.end());
  });
  // What is left of an actor may take its process along.
  if (!calm_ && faults_.lost_workers > 0 && chance(20)) {
    ++coverage_["worker lost behind an own end"];
    exit(process);
  }
}

/// A sticky error: every holder of the process has lost the device, and says so.
void Cluster::lose_context(const std::shared_ptr<Process>& process, int device) {
  ++coverage_["context lost"];
  note(fmt::format("worker {} of {} loses device {}", process->number, process->node.offer.name(), device));
  for (const auto lease : std::exchange(process->running, {})) {
    const auto epoch = process->node.held.at(lease).lease().epoch();
    unclaim(lease); // the memory is free when the process is gone
    auto message = lease_end(lease, epoch, Error{Errc::context_lost, "an illegal address"});
    message.add_lost_devices(device);
    to_agent(process, [message](AgentCore& core) { core.ended(message); });
  }
}

} // namespace simulation
