// Failed devices, which are out of use until their node is restarted, and the utilization of devices.
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/convert.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

void BrokerCore::devices_failed(const v1::DeviceFault& message) {
  // Another node may have had the name, or ask for it. An embedded one has no number.
  const auto of = [&](std::uint64_t agent) { return message.agent() == 0 || message.agent() == agent; };
  if (const auto known = nodes_.find(message.node()); known != nodes_.end() && of(known->second.agent_id))
    for (const auto index : message.devices())
      fail_device(message.node(), index, message.reason());
  // A node that waits to be admitted does not say it again.
  arrivals_.each_of(message.node(), [&](Arrival& arrival) {
    if (!of(arrival.message.agent()))
      return;
    for (auto& device : *arrival.message.mutable_node()->mutable_devices())
      if (std::count(message.devices().begin(), message.devices().end(), device.index()) > 0)
        device.set_fault(message.reason());
  });
}

void BrokerCore::devices_used(const v1::DeviceUse& message) {
  const auto known = nodes_.find(message.node());
  if (known == nodes_.end())
    return;
  known->second.uses.clear();
  for (const auto& use : message.uses())
    known->second.uses[use.device()] = use;
}

void BrokerCore::fail_faulty_devices(const std::string& name, const v1::Node& said) {
  for (const auto& device : said.devices())
    if (!device.fault().empty())
      fail_device(name, device.index(), device.fault());
}

void BrokerCore::fail_device(const std::string& node, int index, const std::string& reason) {
  const auto known = nodes_.find(node);
  if (known == nodes_.end())
    return;
  auto& offer = known->second.node;
  const auto position = position_of(offer, index);
  if (position == offer.devices_size() || !known->second.failed.insert(index).second)
    return;
  offer.mutable_devices(position)->set_fault(reason);
  log_.add(EventKind::device_failed, fmt::format("{}/{}", node, index), reason);
  // Until those who hold what is lost have ended, its other devices are in use.
  apply(ledger_.fail_device(node, position, world_.now(), Holders::stay), "fail_device");
}

std::string BrokerCore::why_ended(const ActorRecord& actor, const std::string& told) {
  if (!told.empty())
    return told;
  if (actor.state != ActorState::stopping)
    return "the actor has ended by itself";
  return actor.end_reason.empty() ? "it was told to end" : actor.end_reason;
}

std::string BrokerCore::why_lost(const Event& event) const {
  const auto node = nodes_.find(event.lease->node);
  if (node != nodes_.end() && node->second.agent == nullptr && node->second.leaves)
    return fmt::format("node {} was stopped", event.lease->node);
  if (node == nodes_.end() || node->second.agent == nullptr)
    return fmt::format("node {} was lost: the connection to its agent is gone", event.lease->node);
  for (const auto& granted : event.lease->devices) {
    const auto& device = node->second.node.devices(granted.index);
    if (!device.fault().empty())
      return fmt::format("device {} of node {} has failed: {}", device.index(), event.lease->node, device.fault());
  }
  return event.reason;
}

} // namespace gpuactors
