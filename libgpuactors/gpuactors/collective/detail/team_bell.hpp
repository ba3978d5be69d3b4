// TeamBell: wakes the thread that a team works on, when there is something to look at, or when it is to stop.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/future.hpp>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace gpuactors::detail {

/// Shared with callbacks, which may come after the work that they were for. Any thread.
class TeamBell : public std::enable_shared_from_this<TeamBell> {
public:
  void ring() {
    const std::lock_guard lock{mutex_};
    rung_ = true;
    changed_.notify_all();
  }

  void stop() {
    const std::lock_guard lock{mutex_};
    stopped_ = true;
    changed_.notify_all();
  }

  /// Another piece of work begins.
  void forget_stop() {
    const std::lock_guard lock{mutex_};
    stopped_ = false;
  }

  [[nodiscard]] bool stopped() const {
    const std::lock_guard lock{mutex_};
    return stopped_;
  }

  /// Waits until it was rung since the last wait, or `until`; and for a stop, if `or_stop`.
  void wait(TimePoint until, bool or_stop) {
    std::unique_lock lock{mutex_};
    const auto woken = [&] { return rung_ || (or_stop && stopped_); };
    if (until == never)
      changed_.wait(lock, woken);
    else
      changed_.wait_until(lock, until, woken);
    rung_ = false;
  }

  /// Waits until all futures are ready. A stop withdraws their work. The team's thread.
  template <class T>
  void await(std::vector<Future<T>>& futures) {
    for (auto& future : futures)
      future.state()->on_ready([self = shared_from_this()] { self->ring(); });
    const auto is_ready = [](const auto& future) { return future.ready(); };
    for (bool withdrawn = false; !std::all_of(futures.begin(), futures.end(), is_ready);) {
      if (!withdrawn && stopped()) {
        withdrawn = true;
        for (auto& future : futures)
          future.cancel();
        continue;
      }
      wait(never, !withdrawn);
    }
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
  bool stopped_ = false;
};

} // namespace gpuactors::detail
