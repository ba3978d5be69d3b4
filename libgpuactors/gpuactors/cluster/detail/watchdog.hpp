// Watchdog: whether a daemon is stuck, told to the service manager that ends it then. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/detail/daemon_core.hpp>

#include <functional>
#include <memory>

namespace gpuactors::detail {

/// Calls a function again and again, as long as the daemon's timers run, its event loop takes turns, and its actor
/// answers: one after the other, so that each that is stuck ends the calls.
class Watchdog {
public:
  /// @param actor answers `PeerDown` about nobody.
  /// @param every how often, if nothing is stuck.
  /// @param beat is called on the actor's thread, or the port's; it must not block.
  Watchdog(DaemonCore& core, caf::strong_actor_ptr actor, Duration every, std::function<void()> beat);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// The function is not called any more when this has returned.
  ~Watchdog();

private:
  class Rounds;

  std::shared_ptr<Rounds> rounds_;
};

} // namespace gpuactors::detail
