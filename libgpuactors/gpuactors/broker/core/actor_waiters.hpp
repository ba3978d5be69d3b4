// ActorWaiters: those who wait until an actor is alive, or has ended. Internal to the layer.
#pragma once

#include <gpuactors/broker/core/world.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

namespace gpuactors {

/// Callers who ask for one actor, each for as long as it said. Those who wait no longer are forgotten when there are
/// twice as many as at the last look: an actor may wait for its place for days, while its clients ask every second.
class ActorWaiters {
public:
  using Answer = BrokerAnswer<FoundActor>;

  /// @param client who asks; 0: nobody that the broker knows.
  /// @param until when the caller gives up.
  void add(Answer answer, std::uint64_t client, TimePoint until, TimePoint now) {
    if (entries_.size() >= next_look_) {
      drop([now](const Entry& entry) { return entry.until <= now; });
      next_look_ = std::max(fewest, 2 * entries_.size());
    }
    entries_.push_back({std::move(answer), client, until});
  }

  /// Those of another actor seek this one, too.
  void take(ActorWaiters others) {
    std::move(others.entries_.begin(), others.entries_.end(), std::back_inserter(entries_));
  }

  /// The client asks again: its connection, on which the answers would have come, is lost.
  void forget_client(std::uint64_t client) {
    std::erase_if(entries_, [client](const Entry& entry) { return entry.client == client; });
  }

  void drop_client(std::uint64_t client) {
    drop([client](const Entry& entry) { return entry.client == client; });
  }

  /// Gives each the answer that `make` makes, and forgets them.
  template <class Make>
  void answer(Make make) {
    next_look_ = fewest;
    for (auto& entry : std::exchange(entries_, {}))
      entry.answer.deliver(make());
  }

  [[nodiscard]] std::size_t size() const noexcept {
    return entries_.size();
  }

private:
  struct Entry {
    Answer answer;
    std::uint64_t client = 0;
    TimePoint until = never;
  };

  static constexpr std::size_t fewest = 64;

  template <class Predicate>
  void drop(Predicate is_over) {
    const auto over = std::stable_partition(entries_.begin(), entries_.end(), std::not_fn(is_over));
    for (auto entry = over; entry != entries_.end(); ++entry)
      entry->answer.deliver(fail(Errc::deadline_exceeded, "nobody waits for the actor any more"));
    entries_.erase(over, entries_.end());
  }

  std::vector<Entry> entries_;
  std::size_t next_look_ = fewest;
};

} // namespace gpuactors
