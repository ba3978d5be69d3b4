// ActorPool: several actors with the same job, of which it picks the one with the least to do.
#pragma once

#include <gpuactors/cluster/actor_ref.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace gpuactors {

/// Spreads a program's calls over replicas of a service. It neither spawns nor owns the actors, and does not see the
/// calls of other programs. Copies share the turns. Any thread.
///
///   GPUACTORS_LET(actors, gpuactors::get_all(starting)); // of Cluster::spawn_async
///   const gpuactors::ActorPool pool{std::move(actors)};
///   auto answer = pool.next().call<Vector>("apply", in, 2s);
class ActorPool {
public:
  /// Creates an empty pool.
  ActorPool() = default;

  explicit ActorPool(std::vector<ActorRef> actors)
    : actors_(std::move(actors)), turn_(std::make_shared<std::atomic<std::size_t>>(0)) {
    // nop
  }

  /// Returns the actor with the fewest unanswered calls of this program; ties are served in turn. Skips an actor that
  /// is `away` while another one is not. An empty pool returns an empty reference, whose calls fail with
  /// `invalid_argument`.
  [[nodiscard]] ActorRef next() const {
    if (actors_.empty())
      return {};
    const auto load = [](const ActorRef& actor) {
      if (actor.away())
        actor.seek(); // it gets no calls, which would find out that it lives again
      return std::pair{actor.away(), actor.waiting_calls()};
    };
    const auto first = turn_->fetch_add(1, std::memory_order_relaxed) % actors_.size();
    auto best = first;
    auto least = load(actors_[first]);
    for (std::size_t i = 1; i < actors_.size(); ++i) {
      const auto at = (first + i) % actors_.size();
      if (const auto other = load(actors_[at]); other < least) {
        best = at;
        least = other;
      }
    }
    return actors_[best];
  }

  [[nodiscard]] const std::vector<ActorRef>& actors() const noexcept {
    return actors_;
  }

private:
  std::vector<ActorRef> actors_;
  std::shared_ptr<std::atomic<std::size_t>> turn_;
};

} // namespace gpuactors
