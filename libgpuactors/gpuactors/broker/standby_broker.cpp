#include <gpuactors/broker/standby_broker.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

StandbyBroker::StandbyBroker(caf::actor_config& config, std::shared_ptr<const Lanes> lanes, std::string active,
                             std::function<void(const std::string&)> asked,
                             std::function<void(const v1::FollowState&)> followed)
  : Guarded(config, std::move(lanes)), active_(std::move(active)), asked_(std::move(asked)),
    followed_(std::move(followed)) {
  // nop
}

caf::behavior StandbyBroker::make_behavior() {
  // What they send without having been taken in needs no answer.
  set_default_handler(caf::drop);
  const auto refusal = to_caf(
      Error{Errc::stale_epoch, fmt::format("the broker here stands by for the one at {}, and serves nobody", active_)});
  return {
      [this, refusal](const v1::RegisterNode& message, const caf::strong_actor_ptr&) -> caf::result<v1::Done> {
        asked_(message.node().name());
        return refusal;
      },
      // By which it shows that it is not stuck.
      [](const v1::PeerDown&) {},
      [refusal](const v1::Hello&, const caf::strong_actor_ptr&) -> caf::result<v1::Done> { return refusal; },
      [this, refusal](const v1::FollowState& message) -> caf::result<v1::StateChanges> {
        followed_(message);
        return refusal;
      },
  };
}

} // namespace gpuactors
