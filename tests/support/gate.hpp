// Gate: lets a test hold user code at a known point.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace gpuactors::test {

/// User code waits in front of it until the test opens it. Any thread.
class Gate {
public:
  explicit Gate(bool open = false) : open_(open) {
    // nop
  }

  /// Called by user code: says that it is there, and waits until the gate is open, or until `stopped` says so.
  /// @returns whether it is open.
  bool pass(const std::function<bool()>& stopped = {}) {
    std::unique_lock lock{mutex_};
    ++arrived_;
    wake_.notify_all();
    while (!open_ && !(stopped && stopped()))
      if (stopped)
        wake_.wait_for(lock, std::chrono::milliseconds{1});
      else
        wake_.wait(lock);
    return open_;
  }

  /// Called by the test: waits until `count` have arrived since the gate was closed.
  void await(int count) {
    std::unique_lock lock{mutex_};
    wake_.wait(lock, [this, count] { return arrived_ >= count; });
  }

  /// Lets all through, now and later.
  void open() {
    const std::lock_guard lock{mutex_};
    open_ = true;
    wake_.notify_all();
  }

  void close() {
    const std::lock_guard lock{mutex_};
    open_ = false;
    arrived_ = 0;
  }

private:
  std::mutex mutex_;
  std::condition_variable wake_;
  int arrived_ = 0;
  bool open_;
};

} // namespace gpuactors::test
