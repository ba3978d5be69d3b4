// EndedActors: what the broker remembers of actors that have ended, for those who still ask for them. Internal to the
// layer.
#pragma once

#include <gpuactors/actor/holder_name.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/v1/control.pb.h>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace gpuactors {

/// The last `limits::ended_actors` of them.
class EndedActors {
public:
  v1::EndedActor& add() {
    if (all_.size() >= limits::ended_actors)
      all_.pop_front();
    return all_.emplace_back();
  }

  /// Null if nothing is known of its end, or not any more.
  [[nodiscard]] const v1::EndedActor* find(std::uint64_t id) const {
    return find_if([id](const v1::ActorInfo& actor) { return actor.id() == id; });
  }

  /// The last one that had this name.
  [[nodiscard]] const v1::EndedActor* find(const std::string& name_space, const std::string& name) const {
    return find_if(
        [&](const v1::ActorInfo& actor) { return actor.name() == name && actor.name_space() == name_space; });
  }

  /// For callers who ask for an actor that no longer exists.
  [[nodiscard]] std::string how_ended(std::uint64_t id) const {
    const auto* found = find(id);
    if (found == nullptr)
      return fmt::format("actor {} has ended", id);
    const auto& actor = found->actor();
    return fmt::format("{} has ended: {}", detail::actor_in_words(actor.name(), actor.type(), ActorId{id}),
                       found->reason());
  }

  /// Passes the latest `most` of them to `sink`, the last one first, until it returns false.
  template <class Sink>
  void for_each_latest(std::size_t most, Sink&& sink) const {
    for (auto it = all_.rbegin(); it != all_.rend() && most > 0; ++it, --most)
      if (!sink(*it))
        return;
  }

private:
  template <class Predicate>
  [[nodiscard]] const v1::EndedActor* find_if(Predicate is_wanted) const {
    for (auto it = all_.rbegin(); it != all_.rend(); ++it)
      if (is_wanted(it->actor()))
        return &*it;
    return nullptr;
  }

  /// The latest last.
  std::deque<v1::EndedActor> all_;
};

} // namespace gpuactors
