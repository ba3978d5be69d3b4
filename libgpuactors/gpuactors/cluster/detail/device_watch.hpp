// From what the management library says of GPUs to what an agent is told. Internal to the cluster layer.
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

/// Tells an agent how busy devices are, every `limits::use_look`, on a thread of its own.
class UseReporter {
public:
  /// @param uuids of the devices.
  /// @returns null when there is no management library, or no thread.
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

/// Has the agent of a node with CUDA devices told of those that fail and how busy they are, while it lives.
struct DeviceWatch {
  /// Each may be null: where there is nothing to watch, or no way to.
  std::unique_ptr<nvml::Watch> faults;
  std::unique_ptr<UseReporter> use;
};

/// @param notice is told what the operator should know: that nothing is watched, and what the devices have dealt with.
[[nodiscard]] DeviceWatch watch_devices(const v1::Node& node, const caf::strong_actor_ptr& agent,
                                        const std::function<void(std::string)>& notice);

} // namespace gpuactors::detail
