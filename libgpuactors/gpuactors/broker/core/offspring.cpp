// The broker and what actors and tasks have spawned: it ends with them, unless it is detached.
#include <gpuactors/broker/core/broker_core.hpp>

#include <fmt/format.h>

namespace gpuactors {

bool BrokerCore::may_live(const Spawner& spawner) const {
  return !spawner.lease || settling_ || ledger_.find_lease(spawner.lease) != nullptr;
}

template <class Message>
Result<void> BrokerCore::check_spawner(Message& message, bool detached, const Caller& caller) const {
  if (detached || !caller.administers)
    message.clear_spawner();
  if (may_live(spawner_of(message.spawner())))
    return {};
  return fail(Errc::unavailable,
              fmt::format("what asks for it runs under lease {}, which has ended, or whose node has not come back to "
                          "the broker",
                          message.spawner().lease()));
}

template Result<void> BrokerCore::check_spawner(v1::ActorSpec&, bool, const Caller&) const;
template Result<void> BrokerCore::check_spawner(v1::SubmitGroup&, bool, const Caller&) const;

void BrokerCore::end_offspring(LeaseId lease, const std::string& who) {
  end(offspring_.of(lease), who);
}

void BrokerCore::end(const Offspring::Members& members, const std::string& who) {
  for (const auto id : members.actors)
    if (auto* actor = actors_.find(id); actor != nullptr) {
      actor->no_restart = true;
      // One that is ending has the grace that it was given.
      if (actor->state != ActorState::stopping)
        kill(*actor, stop_grace_ms, who + ", which has spawned it, has ended");
    }
  for (const auto id : members.groups)
    end_group(id);
}

void BrokerCore::task_ended(const Spawner& task) {
  early_.give_up_spawns(
      [&task](const v1::SpawnActor& message) { return spawner_of(message.spec().spawner()) == task; });
  // What it asked for and has not got yet: an actor whose name is still taken.
  for (auto& [id, record] : actors_)
    std::erase_if(record.until_name_free, [&task](NameWaiter& spawn) {
      const bool gone = spawner_of(spawn.message.spec().spawner()) == task;
      if (gone)
        spawn.answer.deliver(fail(Errc::cancelled, "the task that asked for it has ended"));
      return gone;
    });
  end(offspring_.of(task), "the task");
}

void BrokerCore::end_orphans() {
  for (const auto& spawner : offspring_.spawners())
    if (!may_live(spawner))
      end(offspring_.of(spawner), fmt::format("what ran under lease {}", spawner.lease.value()));
}

} // namespace gpuactors
