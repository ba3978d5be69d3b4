// NodeAgent: the agent of an embedded node. Passes the broker's orders to the node's worker.
#pragma once

#include <gpuactors/actor/services.hpp>
#include <gpuactors/agent/core/instance_table.hpp>
#include <gpuactors/wire/messages.hpp>

#include <memory>

namespace gpuactors {

/// The agent of a node whose one worker lives in its own process (embedded). Event-based; never blocks.
class NodeAgent : public AgentHandle::base {
public:
  /// @param node its description; the agent numbers the units of its accelerators.
  NodeAgent(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, BrokerHandle broker,
            const v1::Node& node);

  AgentHandle::behavior_type make_behavior() override;
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.agent";
  }

private:
  void device_failed(v1::DeviceFault message);
  void device_used(v1::DeviceUse message);
  /// Assigns accelerator units to the order's lease and passes the order on.
  template <class Order, class... Ins>
  void start(Order order, const Ins&... message);

  std::shared_ptr<const ProcessServices> services_{};
  InstanceTable instances_;
  BrokerHandle broker_;
  WorkerHandle worker_;
};

} // namespace gpuactors
