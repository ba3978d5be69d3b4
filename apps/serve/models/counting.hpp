// How requests are counted in the statistics of a model.
#pragma once

#include "pending.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace serve {

/// Why requests failed, by Triton's words.
namespace reason {

inline constexpr auto rejected = "REJECTED";
inline constexpr auto cancelled = "CANCELED";
inline constexpr auto backend = "BACKEND";
inline constexpr auto other = "OTHER";

} // namespace reason

/// One more, which took so long.
inline void count(Timed& timed, gpuactors::Duration time) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  ++timed.count;
  timed.nanoseconds += static_cast<std::uint64_t>(std::max<std::int64_t>(nanoseconds, 0));
}

/// When that is, as statistics say it.
inline std::uint64_t milliseconds_since_epoch() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

} // namespace serve
