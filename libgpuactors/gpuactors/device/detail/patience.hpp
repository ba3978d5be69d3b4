// How a thread waits for a device: it looks again and again, ever more rarely, before it lets itself be woken.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

namespace gpuactors::detail {

/// How long to sleep before the next look at work that was waited for so long already; zero: look at once; empty: it
/// takes so long that the driver may as well wake the thread, which costs no processor.
///
/// The driver wakes a thread by an interrupt: on an H200 in a virtual machine that took 300 us (docs/design/0049), many
/// times what the work of a call takes. So the sleep is a 32nd of what was waited, and 0.1 ms at most.
[[nodiscard]] constexpr std::optional<Duration> pause_after(Duration waited) noexcept {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  constexpr Duration at_once = microseconds{50};
  constexpr Duration longest_pause = microseconds{100};
  constexpr Duration enough = milliseconds{50};
  constexpr int part = 32;
  if (waited < at_once)
    return Duration::zero();
  if (waited >= enough)
    return std::nullopt;
  return std::min(waited / part, longest_pause);
}

/// The same for a thread that looks at the work of many, the latest of which was waited for so long, and whose last
/// look took so long: never at once, for others tell it too, and looking is not all that it does.
[[nodiscard]] constexpr Duration look_again_after(Duration waited, Duration look) noexcept {
  constexpr Duration least = std::chrono::microseconds{20};
  constexpr Duration most = std::chrono::milliseconds{5};
  constexpr int looks = 16;
  const auto pause = pause_after(waited);
  return pause ? std::min(most, std::max({*pause, least, looks * std::min(look, most)})) : most;
}

/// Sleeps for microseconds as they are, which the kernel would round up by another 50. Any thread.
void sleep_precisely(Duration pause) noexcept;

/// Makes the thread that calls it sleep and wait as precisely from now on.
void wait_precisely() noexcept;

} // namespace gpuactors::detail
