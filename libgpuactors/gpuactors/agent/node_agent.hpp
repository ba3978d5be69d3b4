// NodeAgent: the agent of an embedded node. Passes the broker's orders to the node's worker.
#pragma once

#include <gpuactors/actor/services.hpp>
#include <gpuactors/agent/core/instance_table.hpp>
#include <gpuactors/device/types.hpp>
#include <gpuactors/wire/messages.hpp>

#include <map>
#include <optional>
#include <string>

namespace gpuactors {

/// What a node offers besides its devices.
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

/// Converts the description of a device by another process.
/// @returns `invalid_argument` for a kind that this version does not know.
[[nodiscard]] Result<DeviceInfo> from_wire(const v1::Device& device);

/// The broker's description of a node with these devices.
[[nodiscard]] v1::Node describe_node(const NodeOptions& options, const std::vector<std::shared_ptr<Device>>& devices);

} // namespace gpuactors
