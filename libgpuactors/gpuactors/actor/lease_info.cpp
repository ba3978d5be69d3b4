#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/device/backend.hpp>
#include <gpuactors/v1/control.pb.h>

#include <algorithm>

namespace gpuactors {

std::vector<int> LeaseInfo::accelerator_ids(std::string_view kind) const {
  if (kind == "gpus") {
    std::vector<int> ids;
    for (const auto& device : devices)
      ids.push_back(device.index);
    return ids;
  }
  const auto it = accelerators.find(std::string{kind});
  return it == accelerators.end() ? std::vector<int>{} : it->second;
}

LeaseInfo to_lease_info(const v1::Lease& lease) {
  LeaseInfo result;
  result.id = LeaseId{lease.id()};
  result.epoch = lease.epoch();
  result.node = lease.node();
  for (const auto& device : lease.devices())
    result.devices.push_back({device.index(), Share{device.share_units()}, device.memory_bytes()});
  result.cpus = Share{lease.cpu_units()};
  for (const auto& [name, units] : lease.resource_units())
    if (name != host_memory_resource)
      result.resources.emplace(name, Share{units});
  result.host_memory_bytes = host_memory_in(lease.resource_units());
  result.parent = LeaseId{lease.parent()};
  result.quota_owner = lease.quota_owner();
  for (const auto& [name, units] : lease.units())
    result.accelerators[name].assign(units.ids().begin(), units.ids().end());
  return result;
}

std::shared_ptr<Device> find_device(const std::vector<std::shared_ptr<Device>>& devices, int index) {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const auto& device) { return device->info().index == index; });
  return found == devices.end() ? nullptr : *found;
}

std::map<std::string, std::string> environment_of(const LeaseInfo& lease,
                                                  const std::vector<std::shared_ptr<Device>>& devices) {
  std::map<std::string, std::string> environment;
  for (const auto& kind : accelerator_kinds()) {
    std::vector<std::string> units;
    for (const auto id : lease.accelerator_ids(kind.name)) {
      if (kind.name != "gpus") {
        units.push_back(std::to_string(id));
      } else if (const auto device = find_device(devices, id);
                 device != nullptr && device->info().kind == DeviceKind::cuda) {
        // UUIDs, because indices would count from the first device visible to this process.
        units.push_back(device->info().uuid);
      }
    }
    if (!units.empty())
      environment.emplace(kind.variable, visible_units(units));
  }
  return environment;
}

} // namespace gpuactors
