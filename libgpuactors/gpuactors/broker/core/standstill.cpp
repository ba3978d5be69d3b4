// A broker that stood still itself: what others took for its death says nothing about them.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/broker_core.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace gpuactors {

namespace {

/// After how long others may have taken the broker for dead: at the worst, they last heard from it a heartbeat before.
/// Where the two times are close, a standstill must still differ from a pulse that is a little late. There is no lower
/// bound: whom a short link timeout makes give up early, has to be waited for as early.
Duration standstill_of(const BrokerOptions& options) {
  return std::max(options.link_timeout - options.heartbeat, options.heartbeat + options.link_timeout / 4);
}

/// How long others have to come back. Until a lost connection is noticed, and then answered again, it may take a link
/// timeout each, and a pause between two attempts. A node that died has no more time than that either, so that short
/// link timeouts keep their use on a machine that often stands still.
Duration patience_of(const BrokerOptions& options) {
  return std::min<Duration>(limits::settle, 2 * options.link_timeout + limits::redial_longest);
}

} // namespace

BrokerCore::Pulse BrokerCore::pulse() const {
  return {world_.now(), world_.machine_time()};
}

void BrokerCore::look_for_standstill() {
  if (!last_pulse_)
    return;
  const auto seen = pulse();
  const auto stood = std::max(seen.now - last_pulse_->now, seen.machine_time - last_pulse_->machine_time);
  if (stood < standstill_of(options_))
    return;
  const auto patience = patience_of(options_);
  log_.add(EventKind::stood_still, "broker",
           fmt::format("for {:.1f} s; nodes and clients whose connections that has cost have {:.1f} s to return",
                       to_seconds(stood), to_seconds(patience)));
  last_pulse_ = seen;
  patient_until_ = deadline_after(seen.now, patience);
  world_.wake(patience, Wake::patience);
  grant_more_time();
  followers_.stood_still(seen.now);
}

void BrokerCore::grant_more_time() {
  // Deadlines of others have passed while nobody could hear from them that they are there, or are done.
  for (auto& [id, client] : clients_)
    if (client.away_until && *client.away_until < patient_until_) {
      reminders_.remove({*client.away_until, ActorId{}, id});
      client.away_until = patient_until_;
      remind({patient_until_, ActorId{}, id});
    }
  // Otherwise what is on a node that is being emptied would be ended, since nothing can move to nodes that are away.
  for (auto& [name, node] : nodes_)
    if (node.empty_by)
      node.empty_by = std::max(*node.empty_by, patient_until_);
  for (auto& [id, actor] : actors_)
    if (actor.first_start_by && *actor.first_start_by < patient_until_) {
      reminders_.remove({*actor.first_start_by, id});
      actor.first_start_by = patient_until_;
      remind({patient_until_, id});
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
  if (world_.now() < patient_until_) // it stood still again since
    return world_.wake(patient_until_ - world_.now(), Wake::patience);
  std::vector<std::string> away;
  for (const auto& [name, node] : nodes_)
    if (node.agent == nullptr)
      away.push_back(name);
  // Nothing of the first is placed on the next one: the ledger grants nothing on any of them.
  for (const auto& name : away)
    drop_node(name);
}

} // namespace gpuactors
