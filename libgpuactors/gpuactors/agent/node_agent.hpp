// NodeAgent: stands for one node. Takes the broker's orders and passes them to the node's workers.
#pragma once

#include <gpuactors/actor/services.hpp>
#include <gpuactors/agent/instance_table.hpp>
#include <gpuactors/wire/messages.hpp>

#include <map>
#include <string>

namespace gpuactors {

/// What a node offers, and how.
struct NodeOptions {
  std::string name{};
  Share cpus{};
  std::map<std::string, std::string> labels{};
  std::map<std::string, Share> resources{};
};

/// The agent of a node whose one worker lives in its own process (embedded). Event-based; never blocks.
class NodeAgent : public AgentHandle::base {
public:
  /// @param resources what the node offers besides devices and cpus; the agent numbers the units of its accelerators.
  NodeAgent(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, BrokerHandle broker,
            const std::map<std::string, Share>& resources);

  AgentHandle::behavior_type make_behavior() override;
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.agent";
  }

private:
  caf::result<v1::LeaseEnded> end(const v1::EndLease& order);

  /// Passes an order on with the units that its lease gets.
  template <class Order, class... Ins>
  caf::result<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr> start(Order order, const Ins&... message);

  std::shared_ptr<const ProcessServices> services_{};
  InstanceTable instances_;
  BrokerHandle broker_;
  AgentHandle worker_;
};

/// What the broker is told about a node with these devices.
[[nodiscard]] v1::Node describe_node(const NodeOptions& options, const std::vector<std::shared_ptr<Device>>& devices);

} // namespace gpuactors
