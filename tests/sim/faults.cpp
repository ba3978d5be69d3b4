// What fails in a simulated cluster, and who leaves it.
#include <fmt/format.h>
#include <sim/parts.hpp>

#include <algorithm>
#include <array>

namespace simulation {

void Cluster::fail_something() {
  auto which = static_cast<int>(pick(100));
  const auto turns_up = [&](int weight) {
    which -= weight;
    return which < 0;
  };
  auto& node = *nodes_[pick(nodes_.size())];
  auto& client = *some_client();
  if (turns_up(faults_.lost_connections)) {
    ++coverage_["connection lost"];
    if (chance(50)) {
      note("connection lost: " + node.offer.name());
      cut(node.link);
      time_.at(time_.now() + soon(3'000), [this, &node] { come(node); });
    } else {
      note(fmt::format("connection lost: client {}", client.id));
      cut(client.link);
      client.greeted = false;
      // Some come back after the time that the broker waits for them.
      time_.at(time_.now() + soon(8'000), [this, &client] { greet(client); });
    }
  } else if (turns_up(faults_.lost_nodes)) {
    ++coverage_["node lost"];
    restart(node);
  } else if (turns_up(faults_.lost_clients)) {
    ++coverage_["client lost"];
    note(fmt::format("client {} lost", client.id));
    lose(client);
  } else if (turns_up(faults_.lost_holders)) {
    lose_some_holder(node);
  } else if (turns_up(faults_.lost_workers)) {
    lose_some_worker(node);
  } else if (turns_up(faults_.own_ends)) {
    for (const auto& [number, process] : node.processes)
      for (const auto lease : process->running)
        if (const auto& held = node.held.at(lease); held.has_actor() && held.has_started())
          return end_itself(process, lease);
  } else if (turns_up(faults_.lost_brokers)) {
    lose_broker();
  } else if (turns_up(faults_.drains)) {
    drain_some_node();
  } else if (turns_up(faults_.goodbyes)) {
    if (chance(50))
      stop(node);
    else
      stop(client);
  } else if (turns_up(faults_.standstills)) {
    stand_still();
  } else if (turns_up(faults_.quotas)) {
    set_some_quota();
  } else if (turns_up(faults_.renewals)) {
    renew_programs(node);
  } else if (turns_up(faults_.lost_devices)) {
    fail_some_device(node);
  }
}

void Cluster::lose_some_holder(Node& node) {
  for (const auto& [number, process] : node.processes)
    if (!process->running.empty())
      return end(process, *process->running.begin(), Error{Errc::worker_died, "it has crashed"});
}

void Cluster::lose_some_worker(Node& node) {
  if (node.processes.empty())
    return;
  const auto process =
      std::next(node.processes.begin(), static_cast<std::ptrdiff_t>(pick(node.processes.size())))->second;
  if (chance(40) && !process->running.empty()) {
    const auto& devices = node.held.at(*process->running.begin()).lease().devices();
    return lose_context(process, devices.empty() ? 0 : devices[0].index());
  }
  ++coverage_["worker lost"];
  exit(process);
}

void Cluster::fail_some_device(Node& node) {
  const auto index = static_cast<int>(pick(static_cast<std::uint64_t>(node.offer.devices_size())));
  ++coverage_["device lost"];
  v1::DeviceFault message;
  message.add_uuids(node.offer.devices(index).uuid());
  message.set_reason("it is broken");
  at_agent(node, {}, [message](AgentCore& core) { core.device_failed(message); });
}

void Cluster::set_some_quota() {
  if (settling_)
    return; // whoever had none may have got more meanwhile
  v1::SetQuota message;
  constexpr std::array<const char*, 4> owners = {"alice", "alice", "bob", "*"};
  constexpr std::array<std::int64_t, 5> units = {0, 6'000, 10'000, 20'000, 30'000};
  message.set_owner(owners.at(pick(owners.size())));
  if (chance(80))
    message.set_gpu_units(units.at(pick(units.size())));
  note("quota", message);
  check_quotas(); // what they hold is above a lower one at once
  if (core_->set_quota(message))
    ++coverage_["quota set"];
}

void Cluster::drain_some_node() {
  v1::DrainNode message;
  message.set_name(nodes_[pick(nodes_.size())]->offer.name());
  if (chance(50))
    message.set_deadline_ms(pick(3'000));
  note("drain", message);
  if (core_->drain(message))
    ++coverage_["node drained"];
  time_.at(time_.now() + soon(4'000), [this, message]() mutable {
    message.clear_deadline_ms();
    message.set_resume(true);
    if (core_->drain(message))
      ++coverage_["node undrained"];
  });
}

void Cluster::lose(Client& client) {
  cut(client.link);
  client.gone = true;
  client.greeted = false;
  client.leases.clear();
  client.asked.clear();
  client.withdrawn.clear(); // what it withdrew at last may not have arrived
  add_client();
}

void Cluster::stop(Node& node) {
  ++coverage_["node stopped"];
  if (chance(50)) {
    ++coverage_["node leaves"];
    v1::DrainNode message;
    message.set_deadline_ms(pick(1'500));
    at_agent(node, {}, [message](AgentCore& core) { core.leave(message); });
    at_agent(node, 8s, [this, &node](AgentCore&) { say_goodbye(node); });
    at_agent(node, 9s, [this, &node](AgentCore&) { restart(node); });
  } else {
    say_goodbye(node);
    at_agent(node, soon(500), [this, &node](AgentCore&) { restart(node); });
  }
}

void Cluster::stop(Client& client) {
  ++coverage_["client stopped"];
  v1::Goodbye message;
  message.set_client(client.id);
  note("goodbye", message);
  to_broker(client.link, [message](BrokerCore& core) { core.goodbye(message); });
  time_.at(time_.now() + soon(10), [this, &client] {
    if (!client.gone)
      lose(client);
  });
}

void Cluster::stand_still() {
  ++coverage_["broker stood still"];
  note("broker stands still");
  // What was to happen meanwhile happens late, before or after the broker sees that all have given it up.
  const bool seen_first = chance(50);
  const auto time = link_timeout + soon(7'000);
  if (!seen_first)
    time_.jump(time);
  for (auto& node : nodes_)
    if (faults_.lost_nodes > 0 && chance(10)) {
      restart(*node);
    } else {
      cut(node->link);
      time_.at(time_.now() + return_time(), [this, &node = *node] { come(node); });
    }
  for (auto& client : clients_) {
    cut(client->link);
    client->greeted = false;
    time_.at(time_.now() + return_time(), [this, &client = *client] { greet(client); });
  }
  if (seen_first)
    time_.jump(time);
}

Duration Cluster::return_time() {
  // In time, by how long the broker waits; or, if others are late too, sometimes not.
  return soon(faults_.lost_connections > 0 ? 6'000 : 4'500);
}

} // namespace simulation
