// The one notion of time: a steady clock that tests can replace.
#pragma once

#include <chrono>

namespace gpuactors {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

/// A point that never comes: "no deadline".
inline constexpr TimePoint never = TimePoint::max();

/// `start + wait` without overflow: waits too long to represent mean `never`.
[[nodiscard]] constexpr TimePoint deadline_after(TimePoint start, Duration wait) noexcept {
  return wait >= never - start ? never : start + wait;
}

} // namespace gpuactors
