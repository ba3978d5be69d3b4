// StateKeeper: writes what a broker keeps over restarts, all changes of a burst of messages at once. Internal to the
// layer.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/broker/core/event_log.hpp>
#include <gpuactors/broker/core/state_feed.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

/// Does nothing for a broker that keeps nothing.
class StateKeeper {
public:
  /// `world` and `log` must outlive it.
  /// @param store null: nothing is kept.
  /// @param last_id the last one that an earlier broker may have issued.
  StateKeeper(BrokerWorld& world, EventLog& log, std::shared_ptr<DesiredState> store, std::uint64_t last_id);

  [[nodiscard]] bool keeps() const noexcept {
    return feed_ != nullptr;
  }

  /// Answers a broker that stands by. To be called only if something is kept. @returns errors of `StateFeed::read`.
  [[nodiscard]] Result<v1::StateChanges> read(const v1::FollowState& request) {
    return feed_->read(request);
  }

  /// Passes the key and the message of each entry of a section to `use`. What cannot be read is an event.
  template <class Message, class Use>
  void each(StateSection section, Use&& use) {
    each_entry(section, [&](const StateEntry& entry) {
      Message message;
      if (message.ParseFromString(entry.value))
        use(entry.key, std::as_const(message));
      else
        log_.add(EventKind::error, "store", fmt::format("an entry of section {} cannot be read", to_string(section)));
    });
  }

  void put(StateSection section, StateKey key, std::string value);
  void erase(StateSection section, StateKey key);

  /// Records that ids up to some way beyond `given` may be issued: a restarted broker begins above them.
  void reserve_ids(std::uint64_t given);

  /// Records that an actor has ended of which a node that is cut off may still have a life: no later broker takes it.
  void bury(ActorId id);

  /// Actors of which an earlier broker has recorded that. To be called before `bury`.
  [[nodiscard]] std::set<ActorId> load_buried();

  /// An answer that promises what was put before it is delivered: it is held back until that is written, and is
  /// `unavailable` if it cannot be.
  [[nodiscard]] BrokerAnswer<void> when_kept(BrokerAnswer<void> answer);

  /// Writes what is still unwritten. To be called at `Wake::commit`, and last.
  void commit();

private:
  template <class Use>
  void each_entry(StateSection section, Use&& use) {
    if (!keeps())
      return;
    const auto entries = feed_->load(section);
    if (!entries)
      log_.add(EventKind::error, "store", entries.error().message());
    else
      for (const auto& entry : *entries)
        use(entry);
  }

  void commit_soon();

  BrokerWorld& world_;
  EventLog& log_;
  std::unique_ptr<StateFeed> feed_;
  bool is_due_ = false;
  std::vector<BrokerAnswer<void>> held_back_;
  /// Why the last attempt to write failed; empty: it did not.
  std::string error_;
  std::uint64_t reserved_ids_ = 0;
  std::set<ActorId> buried_;
  /// The same in their order, which says who is forgotten first: an actor that has lived for long has a low id.
  std::multimap<std::uint64_t, ActorId> burials_;
  std::uint64_t last_burial_ = 0;
};

} // namespace gpuactors
