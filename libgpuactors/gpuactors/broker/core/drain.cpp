// Draining a node: actors that may be restarted move to other nodes, everything else runs to its end or the deadline.
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/requests.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace gpuactors {

namespace {

using std::chrono::milliseconds;
/// Milliseconds since 1970.
std::int64_t unix_ms(const BrokerWorld& world) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds{world.unix_ns()}).count();
}

} // namespace

Result<void> BrokerCore::undrain(const std::string& name) {
  auto events = ledger_.undrain_node(name, world_.now());
  if (!events)
    return fail(events.error());
  nodes_.at(name).empty_by.reset();
  log_.add(EventKind::node_resumed, name);
  forget_drained(name);
  apply(*events);
  return {};
}

Result<void> BrokerCore::drain(const v1::DrainNode& message) {
  if (message.resume())
    return undrain(message.name());
  auto events = ledger_.drain_node(message.name(), world_.now());
  if (!events)
    return fail(events.error());
  auto& node = nodes_.at(message.name());
  auto& entry = log_.add(EventKind::node_drained, message.name());
  // An earlier drain may have had a deadline.
  node.empty_by.reset();
  if (message.has_deadline_ms()) {
    node.empty_by = deadline_after(world_.now(), from_milliseconds(message.deadline_ms()));
    entry.set_reason(fmt::format("what runs there moves or ends within {} ms", message.deadline_ms()));
  }
  keep_drained(message.name());
  apply(*events);
  if (node.empty_by)
    empty_nodes();
  return {};
}

void BrokerCore::drain_again(const std::string& name, const v1::StoredNode& stored) {
  apply(ledger_.drain_node(name, world_.now()), "drain_node");
  if (stored.until_ms() == 0)
    return;
  const auto left = stored.until_ms() - unix_ms(world_);
  nodes_.at(name).empty_by =
      deadline_after(world_.now(), from_milliseconds(static_cast<std::uint64_t>(std::max<std::int64_t>(0, left))));
  look_again_at_nodes();
}

void BrokerCore::keep_drained(const std::string& name) {
  const auto& node = nodes_.at(name);
  v1::StoredNode stored;
  stored.set_agent(node.agent_id);
  stored.set_drained(true);
  if (node.empty_by == never)
    stored.set_until_ms(std::numeric_limits<std::int64_t>::max());
  else if (node.empty_by)
    stored.set_until_ms(unix_ms(world_) + static_cast<std::int64_t>(to_milliseconds(*node.empty_by - world_.now())));
  // Also kept in memory: a node that only lost its connection is drained again when it returns.
  stored_nodes_[name] = stored;
  // Of those that are away, not all come back.
  if (stored_nodes_.size() > limits::away_drained_nodes + nodes_.size())
    if (const auto away = std::find_if(stored_nodes_.begin(), stored_nodes_.end(),
                                       [&](const auto& item) { return nodes_.count(item.first) == 0; });
        away != stored_nodes_.end())
      forget_drained(std::string{away->first});
  keeper_.put(StateSection::nodes, name, stored.SerializeAsString());
}

void BrokerCore::forget_drained(const std::string& name) {
  if (stored_nodes_.erase(name) > 0)
    keeper_.erase(StateSection::nodes, name);
}

void BrokerCore::look_again_at_nodes() {
  if (const auto pause = emptying_pace_.plan())
    world_.wake(*pause, Wake::emptying);
}

void BrokerCore::empty_nodes() {
  const auto now = world_.now();
  bool more = false;
  std::size_t left = 0;
  for (auto& [name, node] : nodes_) {
    if (!node.empty_by)
      continue;
    std::vector<LeaseId> held;
    ledger_.for_each_held(name, [&](const Lease& lease) { held.push_back(lease.id); });
    if (held.empty()) {
      node.empty_by.reset();
      log_.add(EventKind::node_empty, name);
      continue;
    }
    more = true;
    left += held.size();
    const bool late = now >= *node.empty_by;
    for (const auto id : held)
      leave(id, name, late);
  }
  emptying_pace_.note(left);
  if (more)
    look_again_at_nodes();
}

void BrokerCore::leave(LeaseId id, const std::string& node, bool late) {
  if (const auto task = task_leases_.find(id); task != task_leases_.end()) {
    // The client gives the lease back after the running task.
    reclaim(id, task->second);
    if (late)
      end_task_lease(id);
    return;
  }
  auto* const holder = actors_.holder_of(id);
  if (holder == nullptr)
    return;
  auto& actor = *holder;
  if (actor.state != ActorState::alive && !(late && actor.state == ActorState::starting))
    return;
  if (actor.spec.max_restarts() != 0 && reserve_elsewhere(actor, node)) {
    log_.add(EventKind::moving, actor.request.name(), fmt::format("node {} is being emptied", node));
    // A move must not use up a restart.
    actor.lives.forgive_one();
    keep(actor);
    // The grace lasts until the deadline: an end by force would take down the whole process, and other holders in it
    // have until then too.
    kill(actor, std::max(stop_grace_ms, to_milliseconds(*nodes_.at(node).empty_by - world_.now())),
         fmt::format("it moves to another node, because node {} is being emptied", node));
  } else if (late) {
    // An actor with restarts left is submitted again and waits for room on any node. An actor in a group or under a
    // parent lease would only come back to this node: it is not restarted.
    actor.no_restart = actor.no_restart || actor.request.group() != 0 || actor.request.parent_lease() != 0;
    // It moves, only later: this must not use up a restart either.
    if (actor.spec.max_restarts() != 0 && !actor.no_restart) {
      actor.lives.forgive_one();
      keep(actor);
    }
    kill(actor, stop_grace_ms,
         fmt::format("node {} had to be empty by now, and {}", node,
                     actor.spec.max_restarts() == 0 ? "an actor without restarts does not move"
                                                    : "no other node had room for it"));
  }
}

bool BrokerCore::reserve_elsewhere(ActorRecord& actor, const std::string& node) {
  auto request = request_for(actor);
  if (!request)
    return false;
  request->queue = false;
  const RequestId id{++last_request_};
  move_ = Move{id, &actor};
  apply(ledger_.submit(id, std::move(*request), world_.now()));
  const bool crowded = move_->crowded;
  move_.reset();
  // It does not wait in the queue, and may need all the same what clients keep for their next tasks.
  if (crowded)
    make_way(id);
  // Requests in a bundle or under a parent lease are granted on a drained node too.
  if (actor.next && actor.next->node == node)
    give_up_move(actor);
  return actor.next.has_value();
}

void BrokerCore::forget_move(LeaseId lease) {
  if (auto* actor = actors_.moving_to(lease); actor != nullptr)
    actors_.take_next(*actor);
}

void BrokerCore::give_up_move(ActorRecord& actor) {
  const auto next = actors_.take_next(actor);
  if (!next)
    return;
  apply(ledger_.release(next->id, next->epoch, world_.now()), "release");
  look_at_ending_groups(*next);
}

} // namespace gpuactors
