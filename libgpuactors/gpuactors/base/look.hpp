// How a thread that waits looks for what it waits for, before it sleeps: putting it to sleep and waking it costs more
// than many an answer.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <chrono>

namespace gpuactors {

/// About what putting a thread to sleep and waking it costs, and longer than a short method takes to answer.
inline constexpr std::chrono::microseconds short_look{25};

/// Whether `ready` holds before `until`. Never yields: a thread that does loses its turn to whoever computes.
template <class Ready>
bool look_until(const Ready& ready, TimePoint until) {
  do {
    for (int i = 0; i < 64; ++i)
      if (ready())
        return true;
  } while (Clock::now() < until);
  return false;
}

/// What a thread knows of its looks of one kind. One whose looks were in vain, because its answers come from other
/// processes, say, soon looks only now and then: it would take a processor from those that work on the answer.
class Looks {
public:
  /// Whether it should look this time.
  bool pays() {
    constexpr unsigned in_vain = 4;
    constexpr unsigned now_and_then = 64;
    return vain_ < in_vain || ++vain_ % now_and_then == 0;
  }

  /// Notes and returns what a look has found.
  bool found(bool ready) {
    vain_ = ready ? 0 : vain_ + 1;
    return ready;
  }

private:
  unsigned vain_ = 0;
};

} // namespace gpuactors
