// StandbyBroker: what nodes and clients meet at a broker that stands by: it sends them on, and counts who has asked.
#pragma once

#include <gpuactors/wire/guarded.hpp>
#include <gpuactors/wire/messages.hpp>

#include <functional>
#include <memory>
#include <string>

namespace gpuactors {

/// Refuses registrations and hellos with `stale_epoch`, so that nodes and clients try their next address. Event-based.
class StandbyBroker : public Guarded<caf::event_based_actor, BrokerFromClients> {
public:
  /// @param active where the broker listens for which this one stands by.
  /// @param asked is called with the name of each node that asks, and `followed` with the question of each broker that
  ///        would follow this one; on this actor's thread.
  StandbyBroker(caf::actor_config& config, std::shared_ptr<const Lanes> lanes, std::string active,
                std::function<void(const std::string&)> asked, std::function<void(const v1::FollowState&)> followed);

  caf::behavior make_behavior() override;

  const char* name() const override {
    return "gpuactors.standby";
  }

private:
  std::string active_;
  std::function<void(const std::string&)> asked_;
  std::function<void(const v1::FollowState&)> followed_;
};

} // namespace gpuactors
