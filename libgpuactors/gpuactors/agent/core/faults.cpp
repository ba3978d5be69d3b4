// AgentCore: failed devices, and the utilization of devices.
#include <gpuactors/agent/core/agent_core.hpp>
#include <gpuactors/wire/lease_end.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

void AgentCore::device_failed(const v1::DeviceFault& message) {
  std::vector<int> failed;
  for (const auto& device : options_.node.devices())
    for (const auto& uuid : message.uuids())
      if (device.uuid() == uuid && device.fault().empty())
        failed.push_back(device.index());
  if (failed.empty())
    return;
  const auto told = put_out_of_use(failed, message.reason());
  for (auto& [number, worker] : workers_) {
    const auto uses = [&](const LeaseId& id) {
      const auto& devices = leases_.at(id).held.lease().devices();
      return std::any_of(devices.begin(), devices.end(), [&](const v1::DeviceGrant& device) {
        return std::find(failed.begin(), failed.end(), device.index()) != failed.end();
      });
    };
    if (worker.ending || std::none_of(worker.leases.begin(), worker.leases.end(), uses))
      continue;
    if (worker.control == nullptr) {
      kill_worker(worker);
      continue;
    }
    // The worker answers its calls with the reason. A call into the driver may never return, so the worker is killed
    // after a grace.
    free_key(worker);
    world_.order(worker.control, told);
    world_.wake(limits::fault_grace, AgentWake::worker_end, number);
  }
}

void AgentCore::device_used(v1::DeviceUse message) {
  message.set_node(options_.node.name());
  for (auto& use : *message.mutable_uses())
    for (const auto& device : options_.node.devices())
      if (device.uuid() == use.uuid())
        use.set_device(device.index());
  tell_broker(std::move(message));
}

v1::DeviceFault AgentCore::put_out_of_use(const std::vector<int>& devices, const std::string& reason) {
  v1::DeviceFault told;
  told.set_node(options_.node.name());
  told.set_agent(options_.id);
  told.mutable_devices()->Add(devices.begin(), devices.end());
  told.set_reason(reason);
  std::vector<std::string> notices;
  for (auto& device : *options_.node.mutable_devices()) {
    if (std::find(devices.begin(), devices.end(), device.index()) == devices.end() || !device.fault().empty())
      continue;
    // A restarted broker learns of the fault when the node registers.
    device.set_fault(reason);
    notices.push_back(fmt::format("{}; it is out of use until the node is started again",
                                  describe_fault(options_.node.name(), device.index(), reason)));
  }
  // The broker takes the leases back and places nothing on the devices any more. Before that, it needs the state that
  // actors have saved for their next life.
  send_saves();
  tell_broker(told);
  // Notices come last, so that an operator who reads one finds the fault at the broker.
  for (const auto& notice : notices)
    world_.notice(notice);
  return told;
}

std::optional<v1::LeaseEnded> AgentCore::refuse_failed(const v1::Lease& lease) const {
  for (const auto& granted : lease.devices())
    for (const auto& device : options_.node.devices())
      if (device.index() == granted.index() && !device.fault().empty()) {
        // The order was already on its way when the broker learned of the fault.
        return lease_end(
            lease.id(), lease.epoch(),
            Error{Errc::lease_revoked, describe_fault(options_.node.name(), device.index(), device.fault())});
      }
  return std::nullopt;
}

void AgentCore::note_loss(int device) {
  if (losses_.note(device, world_.now()))
    put_out_of_use({device}, fmt::format("{} workers lost it by sticky errors within {} minutes", limits::device_losses,
                                         limits::device_loss_window.count()));
}

} // namespace gpuactors
