#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/detail/device_watch.hpp>
#include <gpuactors/device/types.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace gpuactors::detail {

// -- utilization ----------------------------------------------------------------------------------

std::unique_ptr<UseReporter> UseReporter::start(std::vector<std::string> uuids, const caf::strong_actor_ptr& agent) {
  const auto monitor = nvml::Monitor::get();
  if (!monitor)
    return nullptr;
  auto result = std::unique_ptr<UseReporter>{
      new UseReporter(**monitor, std::move(uuids), caf::actor_cast<caf::actor_addr>(agent))};
  try {
    result->thread_ = std::thread{[reporter = result.get()] { reporter->run(); }};
  } catch (const std::system_error&) { // no thread can be created
    return nullptr;
  }
  return result;
}

UseReporter::UseReporter(nvml::Monitor& monitor, std::vector<std::string> uuids, caf::actor_addr agent)
  : monitor_(monitor), uuids_(std::move(uuids)), agent_(std::move(agent)) {
  // nop
}

UseReporter::~UseReporter() {
  {
    const std::lock_guard guard{mutex_};
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable())
    thread_.join();
}

void UseReporter::run() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    lock.unlock();
    report();
    lock.lock();
    wake_.wait_for(lock, limits::use_look, [this] { return stopping_; });
  }
}

void UseReporter::report() const {
  v1::DeviceUse message;
  for (const auto& uuid : uuids_) {
    const auto status = monitor_.status(uuid);
    if (!status)
      continue;
    auto* use = message.add_uses();
    use->set_uuid(uuid);
    use->set_percent(status->gpu_percent.value_or(-1));
    use->set_memory_bytes(status->memory_total - std::min(status->memory_total, status->memory_free));
  }
  caf_version::post(caf::actor_cast<caf::strong_actor_ptr>(agent_), std::move(message));
}

// -- faults, and both together --------------------------------------------------------------------

namespace {

std::unique_ptr<nvml::Watch> watch_faults(const caf::strong_actor_ptr& agent,
                                          const std::function<void(std::string)>& notice) {
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

} // namespace

DeviceWatch watch_devices(const v1::Node& node, const caf::strong_actor_ptr& agent,
                          const std::function<void(std::string)>& notice) {
  std::vector<std::string> uuids;
  for (const auto& device : node.devices())
    // A device without a UUID cannot be watched.
    if (device.kind() == to_string(DeviceKind::cuda) && !device.uuid().empty())
      uuids.push_back(device.uuid());
  if (uuids.empty())
    return {};
  return {watch_faults(agent, notice), UseReporter::start(std::move(uuids), agent)};
}

} // namespace gpuactors::detail
