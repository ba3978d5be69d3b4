// Service: what a daemon tells its service manager in the course of its life. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/service_manager.hpp>
#include <gpuactors/cluster/detail/watchdog.hpp>

#include <optional>

namespace gpuactors::detail {

/// Ends before the daemon's core.
class Service {
public:
  explicit Service(const ServiceManager& manager) : manager_(manager) {
    // nop
  }

  /// The daemon does its work from now on, by this actor.
  /// @param what for people.
  void begin(DaemonCore& core, const caf::strong_actor_ptr& actor, std::string_view what) {
    manager_.ready(what);
    if (const auto every = manager_.beat())
      watchdog_.emplace(core, actor, *every, [manager = manager_] { manager.alive(); });
  }

  /// The actor goes, and another one comes.
  void change() {
    watchdog_.reset();
  }

  /// The daemon ends, in its own time.
  void end() {
    watchdog_.reset();
    manager_.stopping();
  }

private:
  const ServiceManager manager_;
  std::optional<Watchdog> watchdog_;
};

} // namespace gpuactors::detail
