#include <gpuactors/cluster/detail/device_messages.hpp>
#include <gpuactors/device/discovery.hpp>

#include <fmt/format.h>

namespace gpuactors::detail {

v1::Device to_wire(const DeviceInfo& info) {
  v1::Device device;
  device.set_index(info.index);
  device.set_kind(std::string{to_string(info.kind)});
  device.set_name(info.name);
  device.set_accelerator_type(info.accelerator_type);
  device.set_uuid(info.uuid);
  device.set_memory_bytes(info.memory_bytes);
  device.set_units(info.units);
  device.set_numa(info.numa_node + 1);
  return device;
}

Result<DeviceInfo> from_wire(const v1::Device& device) {
  DeviceInfo info;
  if (device.kind() == to_string(DeviceKind::cuda))
    info.kind = DeviceKind::cuda;
  else if (device.kind() == to_string(DeviceKind::host))
    info.kind = DeviceKind::host;
  else
    return fail(Errc::invalid_argument,
                fmt::format("device {} is of the unknown kind \"{}\"", device.index(), device.kind()));
  info.index = device.index();
  info.ordinal = device.index();
  info.name = device.name();
  info.accelerator_type = device.accelerator_type();
  info.uuid = device.uuid();
  info.memory_bytes = device.memory_bytes();
  info.units = device.units();
  info.numa_node = device.numa() - 1;
  return info;
}

void add_devices(const std::vector<std::shared_ptr<Device>>& devices, v1::Node& node) {
  std::vector<std::string> uuids;
  for (const auto& device : devices) {
    *node.add_devices() = to_wire(device->info());
    uuids.push_back(device->info().uuid);
  }
  for (const auto distance : distances_between(uuids))
    node.add_distances(distance);
}

} // namespace gpuactors::detail
