// BrokerPart: the broker of a daemon. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/detail/control_failure.hpp>
#include <gpuactors/cluster/detail/daemon_core.hpp>

namespace gpuactors::detail {

/// A broker in this process, and its address.
class BrokerPart {
public:
  /// @param takes_over whether another broker has served with what the store has now.
  /// @returns `invalid_argument` for a bad address, `unavailable` if the port is in use, and errors of
  ///          `StateStore::open`.
  Result<void> start(DaemonCore& core, const BrokerDaemon& options, bool takes_over = false);

  /// How often brokers that stood by have taken over, this time included.
  [[nodiscard]] std::uint64_t term() const noexcept {
    return term_;
  }

  [[nodiscard]] const Endpoint& endpoint() const noexcept {
    return endpoint_;
  }

  /// The address at which processes of this machine reach the broker.
  [[nodiscard]] Endpoint local_endpoint() const {
    return endpoint_.host == "0.0.0.0" ? Endpoint{"127.0.0.1", endpoint_.port} : endpoint_;
  }

  [[nodiscard]] const caf::strong_actor_ptr& handle() const noexcept {
    return handle_;
  }

  /// The error with which the broker has ended by itself, if it has.
  [[nodiscard]] Result<void> failure() const {
    return failure_.result();
  }

private:
  Endpoint endpoint_;
  caf::strong_actor_ptr handle_;
  std::uint64_t term_ = 0;
  ControlFailure failure_;
};

} // namespace gpuactors::detail
