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

/// Returns `start + wait` without overflow: `never` if the wait is too long to represent.
[[nodiscard]] constexpr TimePoint deadline_after(TimePoint start, Duration wait) noexcept {
  return wait >= never - start ? never : start + wait;
}

/// Converts `count` milliseconds to a duration; a count too large to represent becomes the longest duration.
[[nodiscard]] constexpr Duration from_milliseconds(std::uint64_t count) noexcept {
  constexpr auto most = std::chrono::floor<std::chrono::milliseconds>(Duration::max());
  return count > static_cast<std::uint64_t>(most.count()) ? Duration::max()
                                                          : std::chrono::milliseconds{static_cast<std::int64_t>(count)};
}

} // namespace gpuactors
