// A broker that stood still itself: what others took for its death says nothing about them.
#include <gpuactors/broker/core/broker_core.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace gpuactors {

Standstill::Pulse BrokerCore::pulse() const {
  return {world_.now(), world_.machine_time()};
}

void BrokerCore::look_for_standstill() {
  const auto stood = standstill_.look(pulse());
  if (!stood)
    return;
  const auto patience = standstill_.patience();
  log_.add(EventKind::stood_still, "broker",
           fmt::format("for {:.1f} s; nodes and clients whose connections that has cost have {:.1f} s to return",
                       to_seconds(*stood), to_seconds(patience)));
  world_.wake(patience, Wake::patience);
  grant_more_time();
  followers_.stood_still(world_.now());
}

void BrokerCore::grant_more_time() {
  const auto until = standstill_.patient_until();
  // Deadlines of others have passed while nobody could hear from them that they are there, or are done.
  for (auto& [id, client] : clients_)
    if (client.away_until && *client.away_until < until) {
      reminders_.remove({*client.away_until, ActorId{}, id});
      client.away_until = until;
      remind({until, ActorId{}, id});
    }
  // Otherwise what is on a node that is being emptied would be ended, since nothing can move to nodes that are away.
  for (auto& [name, node] : nodes_)
    if (node.empty_by)
      node.empty_by = std::max(*node.empty_by, until);
  for (auto& [id, actor] : actors_)
    if (actor.first_start_by && *actor.first_start_by < until) {
      reminders_.remove({*actor.first_start_by, id});
      actor.first_start_by = until;
      remind({until, id});
    }
}

void BrokerCore::node_away(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end())
    return;
  found->second.agent = nullptr;
  // Orders to it would be lost, and it may not come back: new work goes to others, or waits.
  if (auto done = ledger_.suspend_node(name); !done)
    log_.add(EventKind::error, name, done.error().message());
  log_.add(EventKind::node_away, name, "the connection to its agent is gone, because the broker stood still");
}

void BrokerCore::give_up_away_nodes() {
  if (const auto left = standstill_.patient_until() - world_.now();
      left > Duration::zero()) // it stood still again since
    return world_.wake(left, Wake::patience);
  std::vector<std::string> away;
  for (const auto& [name, node] : nodes_)
    if (node.agent == nullptr)
      away.push_back(name);
  // Nothing of the first is placed on the next one: the ledger grants nothing on any of them.
  for (const auto& name : away)
    drop_node(name);
}

} // namespace gpuactors
