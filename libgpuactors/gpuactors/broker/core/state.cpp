// The cluster's state, as the broker shows it to others.
#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/convert.hpp>
#include <gpuactors/broker/core/state_room.hpp>

#include <string>
#include <utility>

namespace gpuactors {

void BrokerCore::add_nodes(v1::ClusterState& result, StateRoom& room, Allowance& counts) const {
  for (const auto& view : ledger_.nodes()) {
    const auto& record = nodes_.at(view.name);
    const auto& known = record.node;
    auto* node = result.add_nodes();
    *node->mutable_node() = known;
    node->set_state(record.agent == nullptr ? "away" : std::string{to_string(view.state)});
    node->set_draining(view.state == NodeState::draining);
    node->set_agent_address(known.address());
    node->set_release(record.release);
    if (record.certificate)
      *node->mutable_certificate() = *record.certificate;
    node->set_free_host_memory_bytes(host_memory_in(view.free_resources));
    if (!room.keeps(*result.mutable_nodes(), "nodes"))
      return;
    if (counts.takes(record.tasks))
      *node->mutable_tasks() = record.tasks;
    for (const auto& device_view : view.devices) {
      auto* device = result.add_devices();
      device->set_node(view.name);
      *device->mutable_device() = known.devices(device_view.index);
      device->set_free_units(device_view.free_share.units());
      device->set_free_memory_bytes(device_view.free_memory_bytes);
      device->set_state(std::string{to_string(device_view.state)});
      device->set_reason(device->device().fault());
      if (const auto use = record.uses.find(device->device().index()); use != record.uses.end())
        *device->mutable_use() = use->second;
      for (const auto lease : device_view.leases)
        device->add_leases(lease.value());
      if (!room.keeps(*result.mutable_devices(), "devices"))
        break;
    }
  }
}

void BrokerCore::add_actors(v1::ClusterState& result, StateRoom& room, Allowance& counts) const {
  Allowance metrics{limits::metrics_in_state_bytes};
  for (const auto& [id, record] : actors_) {
    auto& actor = *result.add_actors();
    actor = info_of(record);
    if (!room.keeps(*result.mutable_actors(), "actors"))
      return;
    if (metrics.takes(record.usage.metrics()))
      *actor.mutable_metrics() = record.usage.metrics();
    if (counts.takes(record.usage.methods()))
      *actor.mutable_methods() = record.usage.methods();
  }
}

void BrokerCore::add_queue(v1::ClusterState& result, StateRoom& room) const {
  ledger_.for_each_pending(limits::queue_reasons, [&](const PendingView& waiting) {
    auto* entry = result.add_queue();
    entry->set_id(waiting.request.value());
    entry->set_name(waiting.name);
    entry->set_priority(waiting.priority);
    entry->set_reason(waiting.reason);
    return room.keeps(*result.mutable_queue(), "queue");
  });
}

void BrokerCore::add_present(v1::ClusterState& result, StateRoom& room) const {
  Allowance counts{limits::call_stats_in_state_bytes};
  add_quotas(result);
  if (auto standby = followers_.state(world_.now()))
    *result.mutable_standby() = std::move(*standby);
  add_nodes(result, room, counts);
  for (const auto& lease : ledger_.leases()) {
    *result.add_leases() = to_wire(lease);
    if (!room.keeps(*result.mutable_leases(), "leases"))
      break;
  }
  add_actors(result, room, counts);
  for (const auto& [id, record] : groups_) {
    *result.add_groups() = info_of(id, record);
    if (!room.keeps(*result.mutable_groups(), "groups"))
      break;
  }
  for (const auto& [id, record] : clients_) {
    auto* client = result.add_clients();
    client->set_id(id);
    client->set_name(record.name);
    client->set_release(record.release);
    client->set_away(record.away_until.has_value());
    if (!room.keeps(*result.mutable_clients(), "clients"))
      break;
  }
  add_queue(result, room);
}

void BrokerCore::add_past(const v1::GetState& message, v1::ClusterState& result, StateRoom& room) const {
  if (message.events_from() > 0)
    log_.for_each_from(message.events_from(), [&](const v1::Event& event) {
      *result.add_events() = event;
      return room.keeps(*result.mutable_events(), "events");
    });
  Allowance metrics{limits::metrics_in_state_bytes};
  ended_.for_each_latest(message.ended(), [&](const v1::EndedActor& ended) {
    auto& entry = *result.add_ended();
    entry = ended;
    entry.mutable_actor()->clear_metrics();
    if (!room.keeps(*result.mutable_ended(), "ended"))
      return false;
    if (metrics.takes(ended.actor().metrics()))
      *entry.mutable_actor()->mutable_metrics() = ended.actor().metrics();
    return true;
  });
}

v1::ClusterState BrokerCore::state(const v1::GetState& message) const {
  v1::ClusterState result;
  StateRoom room{result, limits::state_bytes};
  if (!message.only_past())
    add_present(result, room);
  add_past(message, result, room);
  for (const auto& [what, count] : log_.counts())
    (*result.mutable_counters())[what] = count;
  result.set_started_unix_ns(log_.started_unix_ns());
  result.set_release(gpuactors::release);
  result.set_term(options_.term);
  if (certificate_)
    *result.mutable_certificate() = *certificate_;
  return result;
}

} // namespace gpuactors
