// The clock of the library: a steady clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace gpuactors {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

/// A time that never comes: "no deadline".
inline constexpr TimePoint never = TimePoint::max();

/// Returns `start + wait` without overflow: `never` if the wait is too long to represent, or the longest there is.
[[nodiscard]] constexpr TimePoint deadline_after(TimePoint start, Duration wait) noexcept {
  // `never - start` would overflow for a start before the clock's zero, which is when the machine was booted.
  return wait == Duration::max() || (wait > Duration::zero() && start >= never - wait) ? never : start + wait;
}

/// Converts `count` milliseconds to a duration; a count too large to represent becomes the longest duration.
[[nodiscard]] constexpr Duration from_milliseconds(std::uint64_t count) noexcept {
  constexpr auto most = std::chrono::floor<std::chrono::milliseconds>(Duration::max());
  return count > static_cast<std::uint64_t>(most.count()) ? Duration::max()
                                                          : std::chrono::milliseconds{static_cast<std::int64_t>(count)};
}

/// Converts a duration to milliseconds, rounded up: a time that is waited for is not cut short. Zero for less than
/// zero.
[[nodiscard]] constexpr std::uint64_t to_milliseconds(Duration duration) noexcept {
  const auto count = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return count < 0 ? 0 : static_cast<std::uint64_t>(count);
}

/// Converts seconds, rounded up, to a duration; the longest for more than it can represent, zero for NaN and less than
/// zero.
[[nodiscard]] constexpr Duration from_seconds(double seconds) noexcept {
  constexpr std::chrono::duration<double> most = Duration::max();
  if (!(seconds > 0))
    return Duration::zero();
  return seconds >= most.count() ? Duration::max()
                                 : std::chrono::ceil<Duration>(std::chrono::duration<double>{seconds});
}

/// Converts a duration to seconds, to be shown or written down.
[[nodiscard]] constexpr double to_seconds(Duration duration) noexcept {
  return std::chrono::duration<double>{duration}.count();
}

} // namespace gpuactors
