// What wakes, and ends, the thread that keeps the replicas of a version.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <condition_variable>
#include <mutex>

namespace serve {

/// What wakes the keeper of a replica set: it may ring before there is one, and after. Any thread.
class KeeperBell {
public:
  void ring();
  /// Says that the keeper should end. @param replicas_stay  so should not the replicas, from now on.
  void stop(bool replicas_stay = false);
  /// Waits for a ring, at most so long. @returns false once stopped.
  bool wait(gpuactors::Duration most);
  [[nodiscard]] bool stopped() const;
  [[nodiscard]] bool replicas_stay() const;

private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool rung_ = false;
  bool stopped_ = false;
  bool replicas_stay_ = false;
};

} // namespace serve
