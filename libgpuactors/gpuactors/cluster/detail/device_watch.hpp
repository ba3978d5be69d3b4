// Reports faults and utilization of GPUs from the management library to an agent. Internal to the cluster layer.
#pragma once

#include <gpuactors/device/nvml/watch.hpp>
#include <gpuactors/wire/messages.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gpuactors::detail {

/// Reports the utilization of devices to an agent every `limits::use_look`, on its own thread.
class UseReporter {
public:
  /// @param uuids the UUIDs of the devices.
  /// @returns null if there is no management library, or no thread can be created.
  static std::unique_ptr<UseReporter> start(std::vector<std::string> uuids, const caf::strong_actor_ptr& agent);

  UseReporter(const UseReporter&) = delete;
  UseReporter& operator=(const UseReporter&) = delete;
  ~UseReporter();

private:
  UseReporter(nvml::Monitor& monitor, std::vector<std::string> uuids, caf::actor_addr agent);

  void run();
  void report() const;

  nvml::Monitor& monitor_;
  const std::vector<std::string> uuids_;
  const caf::actor_addr agent_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

/// Reports failed CUDA devices and the utilization of all to the agent, as long as this object lives.
struct DeviceWatch {
  /// Either may be null, if there is nothing to watch or no way to watch it.
  std::unique_ptr<nvml::Watch> faults;
  std::unique_ptr<UseReporter> use;
};

/// @param notice gets messages for the operator: that faults are not watched, and errors that the devices have
///        recovered from.
[[nodiscard]] DeviceWatch watch_devices(const v1::Node& node, const caf::strong_actor_ptr& agent,
                                        const std::function<void(std::string)>& notice);

} // namespace gpuactors::detail
