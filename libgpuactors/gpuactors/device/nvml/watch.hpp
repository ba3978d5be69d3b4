// Reports events of this machine's GPUs to subscribers.
#pragma once

#include <gpuactors/device/nvml/monitor.hpp>

#include <functional>
#include <memory>

namespace gpuactors::nvml {

/// A subscription: reports every GPU event while the object lives. All watches of a process share one thread, which
/// waits for the next event. May be created and destroyed on any thread.
class Watch {
public:
  /// Called on the waiting thread, one call at a time, and never after the watch is destroyed. It must not block, nor
  /// create or destroy a watch.
  using OnEvent = std::function<void(const GpuEvent&)>;

  /// @returns `unsupported` with one line if there is no management library or no GPU that reports events.
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
