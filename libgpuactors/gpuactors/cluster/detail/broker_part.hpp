// BrokerPart: the broker of a daemon. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/detail/certificate_watch.hpp>
#include <gpuactors/cluster/detail/control_failure.hpp>
#include <gpuactors/cluster/detail/daemon_core.hpp>

#include <memory>
#include <optional>
#include <string>

namespace gpuactors::detail {

/// The broker that another one has replaced, and why, for people.
struct Replaced {
  std::string broker;
  std::string why;
};

/// A broker in this process, and its address.
class BrokerPart {
public:
  BrokerPart() = default;
  BrokerPart(const BrokerPart&) = delete;
  BrokerPart& operator=(const BrokerPart&) = delete;
  ~BrokerPart();

  /// @param replaced the one for which this one stood by until now, if it did.
  /// @returns `invalid_argument` for a bad address, `unavailable` if the port is in use, and errors of
  ///          `StateStore::open`.
  Result<void> start(DaemonCore& core, const BrokerDaemon& options, std::optional<Replaced> replaced = {});

  [[nodiscard]] const Endpoint& endpoint() const noexcept {
    return endpoint_;
  }

  /// The address at which processes of this machine reach the broker.
  [[nodiscard]] Endpoint local_endpoint() const {
    if (!is_any_address(endpoint_.host))
      return endpoint_;
    return {endpoint_.host == "::" ? "::1" : "127.0.0.1", endpoint_.port};
  }

  [[nodiscard]] const caf::strong_actor_ptr& handle() const noexcept {
    return handle_;
  }

  /// The error with which the broker has ended by itself, if it has.
  [[nodiscard]] Result<void> failure() const {
    return failure_.result();
  }

private:
  /// Tells the other broker, as often as it can be reached from now on: if it serves too, one of the two ends.
  Result<void> tell_other(DaemonCore& core, const BrokerDaemon& options);

  Endpoint endpoint_;
  caf::strong_actor_ptr handle_;
  /// What it tells the other broker of its cluster, if there is one: that which stood by for it, or for which it has.
  v1::TakenOver claim_;
  std::optional<Endpoint> other_;
  std::shared_ptr<Redial> redial_;
  ControlFailure failure_;
  std::optional<CertificateWatch> certificate_;
};

} // namespace gpuactors::detail
