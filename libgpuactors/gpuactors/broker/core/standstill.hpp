// Standstill: notices that the broker itself stood still. Pure: the clocks' times are arguments. Internal to the layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>

#include <algorithm>
#include <optional>

namespace gpuactors {

/// A process that was stopped, on a machine that was suspended or whose disk did not answer, has not heard from others,
/// and they have taken it for dead. So their lost connections say nothing about them, and they get time to come back.
class Standstill {
public:
  /// One moment by two clocks: the second goes on while the machine is suspended.
  struct Pulse {
    TimePoint now;
    Duration machine_time;
  };

  /// @param link_timeout how long others may be silent before they count as dead; zero: for ever.
  Standstill(Duration heartbeat, Duration link_timeout) : heartbeat_(heartbeat), link_timeout_(link_timeout) {
    // nop
  }

  /// Whether it can matter.
  [[nodiscard]] bool is_looked_for() const noexcept {
    return link_timeout_ > Duration::zero();
  }

  /// The broker runs at this moment: to be said at each heartbeat, from the first on.
  void note(Pulse pulse) {
    last_ = pulse;
  }

  /// To be called before anything that depends on who is there.
  /// @returns how long the broker stood still, if that was long enough for others to take it for dead: then they have
  ///          `patience` to come back.
  [[nodiscard]] std::optional<Duration> look(Pulse pulse) {
    if (!last_)
      return std::nullopt;
    const auto stood = std::max(pulse.now - last_->now, pulse.machine_time - last_->machine_time);
    if (stood < longest_silence())
      return std::nullopt;
    last_ = pulse;
    patient_until_ = deadline_after(pulse.now, patience());
    return stood;
  }

  /// Until a lost connection is noticed, and then answered again, it may take a link timeout each, and a pause between
  /// two attempts. A node that died has no more time than that either, so that short link timeouts keep their use on a
  /// machine that often stands still.
  [[nodiscard]] Duration patience() const {
    return std::min<Duration>(limits::settle, 2 * link_timeout_ + limits::redial_longest);
  }

  /// Until when others have time, after the last standstill; long ago if there was none.
  [[nodiscard]] TimePoint patient_until() const noexcept {
    return patient_until_;
  }

private:
  /// After how long others may have taken the broker for dead: at the worst, they last heard from it a heartbeat
  /// before. Where the two times are close, a standstill must still differ from a pulse that is a little late. There is
  /// no lower bound: whom a short link timeout makes give up early, has to be waited for as early.
  [[nodiscard]] Duration longest_silence() const {
    return std::max(link_timeout_ - heartbeat_, heartbeat_ + link_timeout_ / 4);
  }

  const Duration heartbeat_;
  const Duration link_timeout_;
  std::optional<Pulse> last_;
  TimePoint patient_until_{};
};

} // namespace gpuactors
