// AgentWatches: whether agents whose logs are read are still there. Internal to the cluster layer.
#pragma once

#include <gpuactors/wire/request_port.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace gpuactors::detail {

/// Watches each handle once, however often its log is read: what is attached to a handle stays as long as that. Any
/// thread.
class AgentWatches : public std::enable_shared_from_this<AgentWatches> {
public:
  using Lost = std::shared_ptr<const std::atomic<bool>>;

  /// Fails the requests to `agent` when it ends, or the connection to it, with the error of the first call for it.
  /// @returns what says whether that has happened.
  Lost watch(RequestPort& port, const caf::strong_actor_ptr& agent, const Error& gone);

private:
  struct Watched {
    /// The address belongs to this handle as long as that is known.
    caf::weak_actor_ptr handle;
    std::shared_ptr<std::atomic<bool>> lost;
  };

  std::mutex mutex_;
  std::map<const caf::actor_control_block*, Watched> watched_;
};

} // namespace gpuactors::detail
