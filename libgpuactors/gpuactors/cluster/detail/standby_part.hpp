// StandbyPart: a daemon's broker that stands by for another one. Internal to the cluster layer.
#pragma once

#include <gpuactors/broker/state_store.hpp>
#include <gpuactors/cluster/detail/daemon_core.hpp>
#include <gpuactors/cluster/detail/termination.hpp>

#include <memory>
#include <optional>
#include <set>
#include <string>

namespace gpuactors::detail {

/// The broker for which one stands by.
struct ActiveBroker {
  Endpoint endpoint;
  /// Those that it has, as far as it was asked.
  std::set<std::string> nodes;
};

/// Finds out for which broker this one has to stand by: the one that `standby_of` names, or that is the other one by
/// what the store says. One that has served when it ended does so again, unless the other one does now.
/// @returns nothing if this one is to serve; `invalid_argument` if it has to stand by without a store, errors of
///          `StateStore::open`.
Result<std::optional<ActiveBroker>> broker_to_follow(DaemonCore& core, const BrokerDaemon& options);

/// Keeps a copy of what the active broker keeps, until it is time to take over (docs/design/0045).
class StandbyPart {
public:
  StandbyPart() = default;
  StandbyPart(const StandbyPart&) = delete;
  StandbyPart& operator=(const StandbyPart&) = delete;
  ~StandbyPart();

  /// @returns errors of the port and of `StateStore::open`.
  Result<void> start(DaemonCore& core, const BrokerDaemon& options, const DaemonOptions& daemon,
                     const ActiveBroker& active);

  /// Waits until it is time.
  /// @returns false if a signal has come before; `unsupported` if the active broker keeps nothing, `already_exists` if
  ///          another one stands by for it, `invalid_argument` if its state is that of another cluster.
  Result<bool> wait(Termination& termination);

  /// Gives back port and store: the broker that takes over begins like one that was started again.
  Result<void> hand_over();

  [[nodiscard]] const Endpoint& endpoint() const noexcept {
    return endpoint_;
  }

  [[nodiscard]] const caf::strong_actor_ptr& handle() const noexcept {
    return actor_;
  }

  /// Why it is time, for people.
  [[nodiscard]] const std::string& why() const noexcept {
    return why_;
  }

private:
  class State;

  DaemonCore* core_ = nullptr;
  std::shared_ptr<State> state_;
  std::shared_ptr<Redial> redial_;
  Endpoint endpoint_;
  std::string why_;
  caf::strong_actor_ptr actor_;
};

} // namespace gpuactors::detail
