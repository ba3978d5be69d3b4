// ResourceBroker: the actor around BrokerCore.
#pragma once

#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/wire/guarded.hpp>
#include <gpuactors/wire/messages.hpp>

#include <memory>

namespace gpuactors {

/// Passes messages to a `BrokerCore` and sends the core's answers and orders. Event-based; never blocks.
class ResourceBroker : public Guarded<BrokerHandle::base, BrokerFromClients> {
public:
  /// @param lanes the process's connections, which tell who sends; null: there are no other processes.
  ResourceBroker(caf::actor_config& config, BrokerOptions options, std::shared_ptr<const Lanes> lanes = {});
  ~ResourceBroker() override;

  BrokerHandle::behavior_type make_behavior() override;

  /// Drops all actor handles: broker and agents refer to each other, and would never be destroyed otherwise.
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.broker";
  }

private:
  class World;

  std::unique_ptr<World> world_;
  std::unique_ptr<BrokerCore> core_;
};

} // namespace gpuactors
