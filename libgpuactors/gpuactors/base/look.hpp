// Polling before sleeping: how long a waiting thread polls for its answer, because sleeping and waking often cost more
// than the answer.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

namespace gpuactors {

/// About the cost of putting a thread to sleep and waking it, and longer than a short method takes to answer.
inline constexpr std::chrono::microseconds short_look{25};

/// How long threads poll at most, of those kinds for which it depends on the processors that there are.
struct LookTimes {
  /// For an answer from another process.
  std::chrono::microseconds far{0};
  /// An actor's thread, for its next message.
  std::chrono::microseconds message{0};

  friend bool operator==(const LookTimes&, const LookTimes&) = default;
};

/// Returns how long threads poll in a process that may use so many processors: longer with more than one. A processor
/// that has nothing to do sleeps, is slow to wake, and slower in a virtual machine, whose host gives it away; one that
/// polls is awake for whatever comes next on the way of the answer (docs/design/0062-polling-between-processes.md). Any
/// thread.
/// @param wish `long` or `short`, whatever the processors; anything else is none.
[[nodiscard]] LookTimes look_times(unsigned processors, std::string_view wish);

/// Those of this process, by the variable GPUACTORS_POLLING and the processors that it may use when they are first
/// asked for. Any thread.
[[nodiscard]] const LookTimes& look_times();

/// What came of a poll.
struct Look {
  bool found = false;
  /// The thread was off its processor meanwhile, for as long as who computes keeps it.
  bool interrupted = false;
};

/// Polls until `ready` holds or until `until`. Never yields, because a yielding thread loses its turn to threads that
/// compute.
template <class Ready>
Look look_until(const Ready& ready, TimePoint until) {
  // Longer than the threads on the way of an answer take, for which the system may interrupt this one at any time, and
  // shorter than the time for which it lets a thread compute.
  constexpr std::chrono::milliseconds interruption{1};
  const auto some_looks = [&ready] {
    for (int i = 0; i < 64; ++i)
      if (ready())
        return true;
    return false;
  };
  // What is there at once is found without the clock.
  Look result{.found = some_looks()};
  if (result.found)
    return result;
  for (auto now = Clock::now(); !result.found && now < until;) {
    result.found = some_looks();
    const auto last = std::exchange(now, Clock::now());
    result.interrupted = result.interrupted || now - last > interruption;
  }
  return result;
}

/// A thread's record of polls of one kind. If polling was in vain, for example because the answers take too long, the
/// thread soon polls only occasionally: polling would take a processor from the threads that work on the answer. If
/// others computed meanwhile it polls no more for a long time, because the system gives who polls less than who sleeps.
class Looks {
public:
  enum class Begin : std::uint8_t {
    /// The first wait polls.
    at_once,
    /// The first wait polls that comes after a short one: for threads of which many wait only a few times.
    after_short_wait
  };

  explicit Looks(Begin begin = Begin::at_once) : begin_(begin), proven_(begin == Begin::at_once) {
    // nop
  }

  /// Records a wait without a poll, and whether one would have found its end.
  void waited(bool briefly) {
    proven_ = proven_ || briefly;
  }

  /// Returns whether the thread should poll this time.
  bool pays() {
    if (!proven_)
      return false;
    if (pause_ == 0)
      return true;
    --pause_;
    return false;
  }

  /// Records a poll. @returns whether it has found what it waited for.
  bool found(const Look& look) {
    vain_ = look.found ? 0 : vain_ + 1;
    if (look.interrupted)
      pause_ = long_pause;
    else if (vain_ >= in_vain && begin_ == Begin::after_short_wait)
      proven_ = false;
    else if (vain_ >= in_vain)
      pause_ = short_pause;
    return look.found;
  }

private:
  static constexpr unsigned in_vain = 4;
  static constexpr unsigned short_pause = 63;
  static constexpr unsigned long_pause = 4095;

  Begin begin_;
  bool proven_;
  unsigned vain_ = 0;
  /// How often it does not poll from now on.
  unsigned pause_ = 0;
};

} // namespace gpuactors
