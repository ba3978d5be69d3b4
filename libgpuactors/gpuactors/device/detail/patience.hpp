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
/// The driver wakes a thread by an interrupt: on an H200 in a virtual machine that took 300 us (driver 580,
/// docs/gpu-verification.md), many times what the work of a call takes. So the sleep is a 32nd of what was waited: the
/// end is seen late by 3 % at most, and never by more than 0.1 ms.
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

/// Sleeps for microseconds as they are, which the kernel would round up by another 50. Any thread.
void sleep_precisely(Duration pause) noexcept;

/// Makes the thread that calls it sleep and wait as precisely from now on.
void wait_precisely() noexcept;

} // namespace gpuactors::detail
