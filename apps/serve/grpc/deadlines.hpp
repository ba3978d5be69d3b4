// Does something about what is not over in time.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace serve {

/// What is under way, and what is called when it takes too long: on a thread of its own, without a lock. Any thread.
class Deadlines {
public:
  using Key = std::uint64_t;
  using Late = std::function<void()>;

  /// Throws `std::system_error` without a thread.
  Deadlines();
  ~Deadlines();

  Deadlines(const Deadlines&) = delete;
  Deadlines& operator=(const Deadlines&) = delete;

  /// `late` is called when `time` has passed. Of several deadlines of one key, the earliest holds.
  void begin(Key key, gpuactors::Duration time, Late late);

  /// It is over, or somebody else sees to it. What would be called may still be running.
  /// @returns what would have been called, if it was not.
  Late end(Key key);

  /// The same, and what is running for it has returned: unless it is what calls this.
  void end_and_wait(Key key);

private:
  struct Item {
    gpuactors::TimePoint deadline;
    Late late;
  };

  void watch();
  /// With the lock.
  Late take(Key key);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable returned_;
  bool ending_ = false;
  std::map<Key, Item> items_;
  std::set<std::pair<gpuactors::TimePoint, Key>> by_deadline_;
  /// When the thread looks next.
  gpuactors::TimePoint wakes_at_ = gpuactors::never;
  /// For what something is being called.
  Key running_ = 0;
  bool is_running_ = false;
  std::thread thread_;
};

} // namespace serve
