#include <gpuactors/cluster/detail/agent_watches.hpp>

namespace gpuactors::detail {

AgentWatches::Lost AgentWatches::watch(RequestPort& port, const caf::strong_actor_ptr& agent, const Error& gone) {
  std::shared_ptr<std::atomic<bool>> lost;
  {
    const std::lock_guard lock{mutex_};
    auto& watched = watched_[agent.get()];
    if (watched.lost != nullptr)
      return watched.lost;
    lost = std::make_shared<std::atomic<bool>>(false);
    watched = {caf::weak_actor_ptr{agent.get()}, lost};
  }
  // Without the lock: one that has ended is told of at once.
  port.watch(agent, gone, [weak = weak_from_this(), lost, key = agent.get()] {
    *lost = true;
    if (const auto self = weak.lock()) {
      const std::lock_guard lock{self->mutex_};
      self->watched_.erase(key);
    }
  });
  return lost;
}

} // namespace gpuactors::detail
