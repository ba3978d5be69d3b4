// The parts that all daemons have: an actor system with links, and a request port. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/wire/links.hpp>

#include <memory>

namespace gpuactors::detail {

struct SystemParts;

/// Tells the operator if everybody who reaches `host` may use the cluster.
void warn_if_open(const std::string& host, const DaemonOptions& options);

/// The actor system of a daemon. The destructor ends its parts in the order that CAF needs: links, actors, system.
class DaemonCore {
public:
  /// @returns `invalid_argument` for times or certificates that cannot be used, `unavailable` if the machine lacks
  ///          threads.
  static Result<std::unique_ptr<DaemonCore>> make(const LinkOptions& links);
  DaemonCore(const DaemonCore&) = delete;
  DaemonCore& operator=(const DaemonCore&) = delete;
  ~DaemonCore();

  [[nodiscard]] caf::actor_system& system() noexcept {
    return *system_;
  }
  [[nodiscard]] RequestPort& port() noexcept {
    return *port_;
  }
  [[nodiscard]] Links& links() noexcept {
    return *links_;
  }

  /// Spawns an actor that the destructor tells to end.
  template <class Actor, class... Args>
  caf::strong_actor_ptr spawn(Args&&... args) {
    auto actor = caf::actor_cast<caf::strong_actor_ptr>(system_->spawn<Actor>(std::forward<Args>(args)...));
    actors_.push_back(actor);
    return actor;
  }

private:
  struct Config;

  DaemonCore(std::unique_ptr<Config> config, SystemParts parts);

  std::unique_ptr<Config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<RequestPort> port_;
  std::unique_ptr<Links> links_;
  std::vector<caf::strong_actor_ptr> actors_;
};

} // namespace gpuactors::detail
