// Actors that have ended themselves for good: nodes report it when it happens, and repeat it whenever they register, so
// that no broker takes such an actor for one that it has lost.
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/wire/lease_end.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

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
    forget_earliest_own_ends();
  }
  if (const auto* known = actors_.find(id); known != nullptr && (known->state != ActorState::returning || !settling_))
    apply_own_end(id, own.end());
}

void BrokerCore::forget_earliest_own_ends() {
  if (own_ends_.size() <= limits::buried_actors || own_ends_.size() < enough_own_ends_)
    return;
  // Ids of leases grow, those of actors do not tell how long they have lived. Those in the table are still to be ended
  // by it. Many at once, because all have to be looked at.
  std::vector<std::pair<std::uint64_t, ActorId>> others;
  for (const auto& [id, end] : own_ends_)
    if (actors_.find(id) == nullptr)
      others.emplace_back(end.lease(), id);
  const auto many = std::min(others.size(), limits::buried_actors / 8);
  std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(many), others.end());
  for (std::size_t i = 0; i < many; ++i)
    own_ends_.erase(others[i].second);
  enough_own_ends_ = own_ends_.size() + limits::buried_actors / 8;
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
