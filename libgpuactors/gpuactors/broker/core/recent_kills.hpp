// RecentKills: which life of which actor clients have asked to end, for requests that come again because their answer
// was lost. Internal to the layer.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/broker/core/actor_table.hpp>

#include <cstddef>
#include <deque>
#include <map>

namespace gpuactors {

/// The latest ones: a client whose connection is lost asks again within seconds. They stay when the client is dropped,
/// for it may be back at once.
class RecentKills {
public:
  struct Killed {
    ActorId actor;
    /// Of its life at that time; none: it was between two lives.
    LeaseId lease;
  };

  /// @param key without a client: nobody who asks again.
  void add(const ClientRequest& key, const Killed& killed) {
    if (key.first == 0 || !killed_.emplace(key, killed).second)
      return;
    order_.push_back(key);
    if (order_.size() <= most)
      return;
    killed_.erase(order_.front());
    order_.pop_front();
  }

  /// Returns what the request was for; null if it was not here, or long ago.
  [[nodiscard]] const Killed* find(const ClientRequest& key) const {
    const auto found = killed_.find(key);
    return found != killed_.end() ? &found->second : nullptr;
  }

private:
  static constexpr std::size_t most = 10'000;

  std::map<ClientRequest, Killed> killed_;
  std::deque<ClientRequest> order_;
};

} // namespace gpuactors
