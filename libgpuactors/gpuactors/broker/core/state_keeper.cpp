#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/state_keeper.hpp>

#include <chrono>
#include <variant>

namespace gpuactors {

namespace {

/// A disk that is full or away may be back by then.
constexpr std::chrono::seconds store_pause{1};

} // namespace

StateKeeper::StateKeeper(BrokerWorld& world, EventLog& log, std::shared_ptr<DesiredState> store, std::uint64_t last_id)
  : world_(world), log_(log),
    feed_(store != nullptr ? std::make_unique<StateFeed>(std::move(store), last_id + 1) : nullptr) {
  // nop
}

void StateKeeper::put(StateSection section, StateKey key, std::string value) {
  if (!keeps())
    return;
  feed_->put(section, std::move(key), std::move(value));
  commit_soon();
}

void StateKeeper::erase(StateSection section, StateKey key) {
  if (!keeps())
    return;
  feed_->erase(section, std::move(key));
  commit_soon();
}

void StateKeeper::reserve_ids(std::uint64_t given) {
  constexpr std::uint64_t block = 1U << 20;
  if (!keeps() || given + block / 2 < reserved_ids_)
    return;
  reserved_ids_ = given + block;
  put(StateSection::ids, reserved_ids_key, std::to_string(reserved_ids_));
}

void StateKeeper::bury(ActorId id) {
  if (!keeps() || !buried_.insert(id).second)
    return;
  put(StateSection::ended, id.value(), {});
  if (buried_.size() > limits::buried_actors)
    erase(StateSection::ended, buried_.extract(buried_.begin()).value().value());
}

std::set<ActorId> StateKeeper::load_buried() {
  each_entry(StateSection::ended, [this](const StateEntry& entry) {
    if (const auto* id = std::get_if<std::uint64_t>(&entry.key))
      buried_.insert(ActorId{*id});
  });
  return buried_;
}

void StateKeeper::commit_soon() {
  if (!std::exchange(is_due_, true))
    world_.wake(Duration::zero(), Wake::commit);
}

void StateKeeper::commit() {
  if (!std::exchange(is_due_, false))
    return;
  const auto done = feed_->commit();
  const auto before = std::exchange(error_, done ? std::string{} : done.error().message());
  if (done)
    return;
  if (error_ != before)
    log_.add(EventKind::error, "store", error_);
  // The store keeps what it could not write.
  is_due_ = true;
  world_.wake(store_pause, Wake::commit);
}

} // namespace gpuactors
