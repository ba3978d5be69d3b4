// Actors that have ended themselves for good: nodes report it when it happens, and repeat it whenever they register, so
// that no broker takes such an actor for one that it has lost.
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/wire/lease_end.hpp>

#include <chrono>

namespace gpuactors {

void BrokerCore::note_own_end(const v1::LeaseEnded& message) {
  if (auto* actor = actors_.holder_of(LeaseId{message.lease()}); actor != nullptr) {
    actor->no_restart = true;
    actor->own_end = error_in(message, Errc::actor_died);
  }
}

void BrokerCore::take_own_end(const v1::OwnEnd& own) {
  const ActorId id{own.actor()};
  const LeaseId lease{own.end().lease()};
  if (const auto* held = ledger_.find_lease(lease); held != nullptr && held->epoch == own.end().epoch())
    lease_ended(own.end());
  // Another node may be about to bring back an earlier life, or a later one.
  if (id.value() <= options_.last_id && !is_before_own_end(id, lease)) {
    own_ends_[id] = own.end();
    forget_earliest_own_end();
  }
  if (const auto* known = actors_.find(id); known != nullptr && (known->state != ActorState::returning || !settling_))
    apply_own_end(id, own.end());
}

void BrokerCore::forget_earliest_own_end() {
  if (own_ends_.size() <= limits::buried_actors)
    return;
  // Ids of leases grow, those of actors do not tell how long they have lived. Those in the table are still to be ended
  // by it.
  auto earliest = own_ends_.end();
  for (auto it = own_ends_.begin(); it != own_ends_.end(); ++it)
    if (actors_.find(it->first) == nullptr
        && (earliest == own_ends_.end() || it->second.lease() < earliest->second.lease()))
      earliest = it;
  if (earliest != own_ends_.end())
    own_ends_.erase(earliest);
}

void BrokerCore::apply_own_end(ActorId id, const v1::LeaseEnded& end, bool also_later) {
  auto* const found = actors_.find(id);
  if (found == nullptr)
    return;
  auto& record = *found;
  // Of two lives the one with the later lease is the actor: the other was taken for lost when that one began.
  const bool was_last = record.last && record.last->lease().id() == end.lease();
  if (LeaseId{end.lease()} < last_lease_of(record) && !(also_later && was_last))
    return;
  const auto error = error_in(end, Errc::actor_died);
  record.no_restart = true;
  record.own_end = error;
  if (record.lease) { // an earlier life, on a node that was cut off, or one that has just begun
    if (record.state != ActorState::stopping)
      kill(record, stop_grace_ms, error.message());
    return;
  }
  if (record.state == ActorState::waiting)
    withdraw_from_queue(record, "own end");
  log_.add(EventKind::died, record.request.name(), error.message());
  log_.count(std::string{to_string(EventKind::died)} + '/' + std::string{to_string(error.code())});
  forget_actor(id, error);
}

bool BrokerCore::is_before_own_end(ActorId id, LeaseId lease) const {
  const auto own = own_ends_.find(id);
  return own != own_ends_.end() && lease < LeaseId{own->second.lease()};
}

} // namespace gpuactors
