#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/state_keeper.hpp>

#include <algorithm>
#include <charconv>
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
  burials_.emplace(++last_burial_, id);
  put(StateSection::ended, id.value(), std::to_string(last_burial_));
  if (burials_.size() <= limits::buried_actors)
    return;
  const auto first = burials_.extract(burials_.begin()).mapped();
  buried_.erase(first);
  erase(StateSection::ended, first.value());
}

std::set<ActorId> StateKeeper::load_buried() {
  each_entry(StateSection::ended, [this](const StateEntry& entry) {
    const auto* id = std::get_if<std::uint64_t>(&entry.key);
    if (id == nullptr)
      return;
    // Earlier releases did not write it.
    std::uint64_t number = 0;
    std::from_chars(entry.value.data(), entry.value.data() + entry.value.size(), number);
    buried_.insert(ActorId{*id});
    burials_.emplace(number, ActorId{*id});
    last_burial_ = std::max(last_burial_, number);
  });
  return buried_;
}

void StateKeeper::commit_soon() {
  if (!std::exchange(is_due_, true))
    world_.wake(Duration::zero(), Wake::commit);
}

BrokerAnswer<void> StateKeeper::when_kept(BrokerAnswer<void> answer) {
  if (!keeps())
    return answer;
  return BrokerAnswer<void>{
      [this, kept = std::make_shared<BrokerAnswer<void>>(std::move(answer))](Result<void> result) {
        if (result && is_due_)
          held_back_.push_back(std::move(*kept));
        else
          kept->deliver(std::move(result));
      }};
}

void StateKeeper::commit() {
  if (!std::exchange(is_due_, false))
    return;
  const auto done = feed_->commit();
  for (auto& answer : std::exchange(held_back_, {}))
    answer.deliver(done ? Result<void>{}
                        : fail(Errc::unavailable,
                               fmt::format("it is done, but a broker that starts again would not know of it: {}",
                                           done.error().message())));
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
