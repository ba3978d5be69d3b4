#include <gpuactors/cluster/detail/device_watch.hpp>
#include <gpuactors/device/types.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors::detail {

std::unique_ptr<nvml::Watch> watch_devices(const v1::Node& node, caf::strong_actor_ptr agent,
                                           std::function<void(std::string)> notice) {
  // One that was only offered has no UUID.
  const auto is_gpu = [](const v1::Device& device) {
    return device.kind() == to_string(DeviceKind::cuda) && !device.uuid().empty();
  };
  if (std::none_of(node.devices().begin(), node.devices().end(), is_gpu))
    return nullptr;
  auto watch =
      nvml::Watch::start([agent = caf::actor_cast<caf::actor_addr>(agent), notice](const nvml::GpuEvent& event) {
        const auto name = event.uuids.empty() ? std::string{"a GPU"} : event.uuids.front();
        if (event.severity == nvml::Severity::noted || (event.severity == nvml::Severity::fatal && event.uuids.empty()))
          notice(fmt::format("{}: {}", name, event.text));
        if (event.severity != nvml::Severity::fatal || event.uuids.empty())
          return;
        v1::DeviceFault fault;
        fault.mutable_uuids()->Add(event.uuids.begin(), event.uuids.end());
        fault.set_reason(event.text);
        caf_version::post(caf::actor_cast<caf::strong_actor_ptr>(agent), std::move(fault));
      });
  if (watch)
    return std::move(*watch);
  notice(fmt::format("faults that GPUs report by themselves go unnoticed: {}", watch.error().message()));
  return nullptr;
}

} // namespace gpuactors::detail
