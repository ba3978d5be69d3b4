// Polling before sleeping: how long a waiting thread polls for its answer, because sleeping and waking often cost more
// than the answer.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <chrono>

namespace gpuactors {

/// About the cost of putting a thread to sleep and waking it, and longer than a short method takes to answer.
inline constexpr std::chrono::microseconds short_look{25};

/// Polls until `ready` holds or until `until`; returns whether it holds. Never yields, because a yielding thread loses
/// its turn to threads that compute.
template <class Ready>
bool look_until(const Ready& ready, TimePoint until) {
  do {
    for (int i = 0; i < 64; ++i)
      if (ready())
        return true;
  } while (Clock::now() < until);
  return false;
}

/// A thread's record of polls of one kind. If polling was in vain, for example because the answers come from other
/// processes, the thread soon polls only occasionally: polling would take a processor from the threads that work on the
/// answer.
class Looks {
public:
  /// Returns whether the thread should poll this time.
  bool pays() {
    constexpr unsigned in_vain = 4;
    constexpr unsigned now_and_then = 64;
    return vain_ < in_vain || ++vain_ % now_and_then == 0;
  }

  /// Records and returns the result of a poll.
  bool found(bool ready) {
    vain_ = ready ? 0 : vain_ + 1;
    return ready;
  }

private:
  unsigned vain_ = 0;
};

} // namespace gpuactors
