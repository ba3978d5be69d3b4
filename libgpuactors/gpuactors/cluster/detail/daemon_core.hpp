// What every process of a cluster has: an actor system with links, and a port to ask from. Internal to the cluster
// layer.
#pragma once

#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/wire/links.hpp>

#include <memory>

namespace gpuactors::detail {

/// Ends in the order that CAF needs: links, actors, system.
class DaemonCore {
public:
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

  /// Spawns an actor that is told to end when the process ends.
  template <class Actor, class... Args>
  caf::strong_actor_ptr spawn(Args&&... args) {
    auto actor = caf::actor_cast<caf::strong_actor_ptr>(system_->spawn<Actor>(std::forward<Args>(args)...));
    actors_.push_back(actor);
    return actor;
  }

private:
  struct Config;

  explicit DaemonCore(const LinkOptions& links);

  std::unique_ptr<Config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<RequestPort> port_;
  std::unique_ptr<Links> links_;
  std::vector<caf::strong_actor_ptr> actors_;
};

/// Keeps SIGTERM and SIGINT from ending the process, in this thread and those that it starts; `wait` waits for one.
/// SIGPIPE is ignored meanwhile. Raises the process's limit of descriptors, for good.
class Termination {
public:
  Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;
  ~Termination();

  /// Returns when a signal came.
  void wait();

  /// The same, but not longer than `time`; returns whether a signal came.
  bool wait_for(Duration time);

private:
  sigset_t waited_{};
  sigset_t before_{};
  void (*pipe_before_)(int) = nullptr;
};

} // namespace gpuactors::detail
