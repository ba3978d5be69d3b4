// Waits for GPU events and reports them to all watches.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/nvml/watch.hpp>

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

namespace gpuactors::nvml {

/// All watches of the process, and the thread that serves them, which runs while there are watches.
class Watchers {
public:
  static Watchers& of_process() {
    // Never destroyed: a program may exit while there are watches.
    static auto& one = *new Watchers;
    return one;
  }

  Result<void> add(const Watch* watch, Monitor& monitor) {
    const std::lock_guard order{order_};
    const std::lock_guard guard{mutex_};
    if (watches_.insert(watch).second && watches_.size() == 1) {
      stop_ = false;
      try {
        thread_ = std::thread{[this, &monitor] { run(monitor); }};
      } catch (const std::system_error& error) {
        watches_.erase(watch);
        return fail(Errc::unavailable, fmt::format("the watch of GPUs has no thread: {}", error.what()));
      }
    }
    return {};
  }

  void remove(const Watch* watch) {
    const std::lock_guard order{order_};
    {
      const std::lock_guard guard{mutex_};
      watches_.erase(watch);
      stop_ = watches_.empty();
      wake_.notify_all();
    }
    if (stop_ && thread_.joinable())
      thread_.join();
  }

private:
  void run(Monitor& monitor) {
    for (;;) {
      // Waits without the mutex, because this takes a while.
      const auto event = monitor.wait(limits::fault_look);
      std::unique_lock lock{mutex_};
      if (stop_)
        return;
      if (!event)
        // The failure may be permanent, so the next attempt is not urgent.
        wake_.wait_for(lock, limits::fault_grace, [this] { return stop_; });
      else if (*event)
        for (const auto* watch : watches_)
          watch->on_event_(**event);
    }
  }

  /// Serializes `add` and `remove`, including the start and end of the thread.
  std::mutex order_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::set<const Watch*> watches_;
  bool stop_ = false;
  std::thread thread_;
};

Result<std::unique_ptr<Watch>> Watch::start(OnEvent on_event) {
  GPUACTORS_LET(monitor, Monitor::get());
  GPUACTORS_TRY(monitor->watch());
  auto watch = std::unique_ptr<Watch>{new Watch(std::move(on_event))};
  GPUACTORS_TRY(Watchers::of_process().add(watch.get(), *monitor));
  return watch;
}

Watch::~Watch() {
  Watchers::of_process().remove(this);
}

} // namespace gpuactors::nvml
