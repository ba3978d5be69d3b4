// Who wants to know of what happens to this machine's GPUs.
#pragma once

#include <gpuactors/device/nvml/monitor.hpp>

#include <functional>
#include <memory>

namespace gpuactors::nvml {

/// Tells of every event of a GPU while it lives. All of a process share one thread, which waits for the next event.
/// Made and destroyed on any thread.
class Watch {
public:
  /// Called on the thread that waits, one call at a time and none after the end of the object. It must not block, nor
  /// make or destroy one of these.
  using OnEvent = std::function<void(const GpuEvent&)>;

  /// @returns `unsupported` with one line when there is no management library or no GPU that reports events.
  static Result<std::unique_ptr<Watch>> start(OnEvent on_event);

  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

private:
  friend class Watchers;
  explicit Watch(OnEvent on_event) : on_event_(std::move(on_event)) {
    // nop
  }

  const OnEvent on_event_;
};

} // namespace gpuactors::nvml
