// ControlFailure: how a daemon's control actor has ended by itself, if it has. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/messages.hpp>

#include <memory>
#include <string>

namespace gpuactors::detail {

/// Ends the process with an error when its broker or agent fails, so that its supervisor restarts it.
class ControlFailure {
public:
  /// Sends this process SIGTERM when `actor` ends by an error. `what` names it for the operator.
  void watch(const caf::strong_actor_ptr& actor, std::string what) const;

  /// The error of the actor that has failed, if one has.
  [[nodiscard]] Result<void> result() const;

private:
  struct State;
  /// Shared with the actors, which may end after this object.
  std::shared_ptr<State> state_ = make();
  static std::shared_ptr<State> make();
};

} // namespace gpuactors::detail
