// What nodes bring back: leases of an earlier broker, or that were lost here, and the lives of actors under them.
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/convert.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

Result<void> BrokerCore::restore(Lease& lease) {
  auto restored = ledger_.restore(lease);
  if (restored || (!lease.group && !lease.parent))
    return restored;
  // Its bundle has been placed elsewhere since, its group was lost with the earlier broker, or what has lent it has
  // ended. Its resources are in use all the same.
  const bool was_lent = static_cast<bool>(std::exchange(lease.parent, LeaseId{}));
  lease.group = GroupId{};
  lease.bundle = 0;
  restored = ledger_.restore(lease);
  if (restored || !was_lent)
    return restored;
  // What has lent it may have been in a bundle, which has that room now.
  for (const auto& [id, group] : groups_)
    for (const auto& bundle : ledger_.bundles_of(id)) {
      auto inside = lease;
      inside.group = id;
      inside.bundle = bundle.bundle;
      if (!group.ending && bundle.node == lease.node && ledger_.restore(inside))
        return {};
    }
  return restored;
}

void BrokerCore::adopt(const v1::HeldLease& held, const v1::Node& node) {
  auto lease = from_wire(held.lease(), node);
  const auto id = lease.id;
  auto restored = restore(lease);
  // A lease that this broker granted itself was lost here, or ended, before the node came back.
  bool over = options_.last_id < id.value();
  const auto has_failed = [&offer = nodes_.at(node.name()).node](const DeviceGrant& device) {
    return device.index < offer.devices_size() && !offer.devices(device.index).fault().empty();
  };
  if (!restored && std::erase_if(lease.devices, has_failed) > 0) {
    // It was lost with a device, and its holder still has the others.
    over = true;
    restored = ledger_.restore(lease);
  }
  if (!restored) {
    log_.add(EventKind::error, fmt::format("lease {}", id.value()), restored.error().message());
    tell_agent_again_to_end(lease);
    return;
  }
  auto& event = log_.add(EventKind::adopted, lease.name);
  *event.mutable_lease() = held.lease();
  last_request_ = std::max(last_request_, lease.request.value());
  if (held.has_actor() && !over && forgotten_.count(ActorId{held.actor().actor()}) == 0
      && !is_before_own_end(ActorId{held.actor().actor()}, id) && !has_running_twin(held)
      && !has_lost_name(held.actor())) {
    auto* const known = actors_.find(ActorId{held.actor().actor()});
    if (known == nullptr || known->state == ActorState::returning)
      return adopt_actor(held);
    // Of two lives, the one that was started last is the actor: the other's node was cut off when it was started. The
    // ids of leases grow, also from one broker to the next; counts of restarts do not. And the life that the store knew
    // last goes on, if no other one has begun.
    const bool had_lease = known->lease || (known->last && known->last->has_lease());
    const bool goes_on = !had_lease && known->stored_lease == id;
    if (known->state != ActorState::stopping && (goes_on || last_lease_of(*known) < id)) {
      replace_life(*known);
      return adopt_actor(held);
    }
  }
  auto& task = add_task_lease(lease, held.client());
  const auto client = clients_.find(held.client());
  const bool wanted = client != clients_.end() ? client->second.claimed.count(id) > 0 : settling_;
  if (held.has_actor() || over || !wanted)
    end_task_lease(id);
  else if (held.retired())
    reclaim(id, task);
}

LeaseId BrokerCore::last_lease_of(const ActorRecord& record) {
  if (record.lease)
    return LeaseId{record.lease->id()};
  // One whose node did not come back has lost a life that had no lease here.
  return record.last && record.last->has_lease() ? LeaseId{record.last->lease().id()} : record.stored_lease;
}

void BrokerCore::replace_life(ActorRecord& record) {
  stop_reminding(record);
  give_up_move(record);
  record.contacts = {};
  record.address.clear();
  record.pid = 0;
  record.usage.Clear();
  if (record.state == ActorState::waiting)
    withdraw_from_queue(record, "adopt");
  if (!record.lease)
    return;
  const LeaseId old{record.lease->id()};
  end_offspring(old, fmt::format("an earlier life of actor {}", record.request.name()));
  actors_.let_go(record);
  if (const auto* lease = ledger_.find_lease(old); lease != nullptr) {
    add_task_lease(*lease, record.client);
    end_task_lease(old);
  }
}

bool BrokerCore::has_running_twin(const v1::HeldLease& held) const {
  const auto* twin = actors_.spawned_for({held.actor().client(), held.actor().client_request()});
  // Numbers grow, also from one broker to the next.
  return twin != nullptr && ActorId{held.actor().actor()} < twin->id
         && (twin->state == ActorState::starting || twin->state == ActorState::alive
             || twin->state == ActorState::stopping);
}

ActorRecord* BrokerCore::namesake_of(const v1::StartActor& order) const {
  const auto& spec = order.spec();
  auto* const found = spec.name().empty() ? nullptr : actors_.find({spec.name_space(), spec.name()});
  return found != nullptr && found->id != ActorId{order.actor()} ? found : nullptr;
}

bool BrokerCore::has_lost_name(const v1::StartActor& order) const {
  const auto* other = namesake_of(order);
  if (other == nullptr || other->id < ActorId{order.actor()})
    return false;
  // Of two that earlier brokers knew, the later one was given the name when the other one had ended.
  return other->id.value() <= options_.last_id || !settling_;
}

void BrokerCore::end_namesake(const v1::StartActor& order) {
  auto* const other = namesake_of(order);
  if (other == nullptr)
    return;
  const Error error{
      Errc::already_exists,
      fmt::format("there was an actor named \"{}\" already, which its node has brought back", other->spec.name())};
  if (other->state == ActorState::waiting)
    withdraw_from_queue(*other, "adopt");
  if (other->state == ActorState::waiting || other->state == ActorState::pausing)
    return forget_actor(other->id, error);
  other->no_restart = true;
  if (other->state != ActorState::stopping)
    kill(*other, stop_grace_ms, error.message());
}

void BrokerCore::adopt_actor(const v1::HeldLease& held) {
  const auto& order = held.actor();
  const ActorId id{order.actor()};
  const ClientRequest key{order.client(), order.client_request()};
  ActorWaiters waiters;
  // If the client asked for the actor again before its node was back, the new one is dropped.
  if (auto* twin = actors_.spawned_for(key);
      twin != nullptr && twin->id != id && (twin->state == ActorState::waiting || twin->state == ActorState::pausing)) {
    waiters = std::exchange(twin->until_alive, {});
    kill(*twin, 0, "its client had asked for it before, and a node has brought that actor back");
  }
  end_namesake(order);
  auto* const known = actors_.find(id);
  auto& record = known != nullptr ? *known : load_actor(held);
  record.until_alive.take(std::move(waiters));
  // The node does not know about moves that were under way.
  const auto forgiven = std::max(record.lives.forgiven(), order.forgiven());
  const auto moves = std::max(record.lives.moves(), order.moves());
  record.lives = Lives{order.restarts(), forgiven, moves, order.restarts() > 0 || held.has_started()};
  record.saved_type = order.saved_type();
  record.saved = order.saved();
  // Saved under this lease at the latest: what an earlier life saved does not replace it.
  if (!record.saved_type.empty())
    record.saved_in = LeaseId{held.lease().id()};
  record.waiting_for = RequestId{held.lease().request()};
  actors_.hold(record, held.lease());
  record.state = ActorState::starting;
  limit_first_start(record);
  if (held.has_started())
    actor_started(record, held.started());
  // The node may come back after the time in which the actor's client had to, or what has spawned it: the actor has no
  // owner then.
  const bool orphan = !settling_ && !record.spec.detached() && clients_.count(record.client) == 0;
  const bool forlorn = !may_live(spawner_of(record.spec.spawner()));
  // The order may not have reached the node.
  const bool told_to_end = record.spec.max_restarts() == 0 && order.spec().max_restarts() != 0;
  if (orphan || forlorn || told_to_end || withdrawn_.count(key) > 0) {
    record.no_restart = true;
    kill(record, stop_grace_ms,
         orphan        ? "its client is gone"
         : forlorn     ? "what has spawned it has ended"
         : told_to_end ? "it was told to end before the broker started again"
                       : "the request for it was withdrawn");
  }
}

} // namespace gpuactors
