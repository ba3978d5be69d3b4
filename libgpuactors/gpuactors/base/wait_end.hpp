// How waits for futures end when whoever waits has to go: a task or an actor whose lease ends.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace gpuactors::detail {

/// From now on, waits of this thread that are under way when the flag is set end. Later ones do not, so that who cleans
/// up may wait. Null: they last as long as they last.
void set_wait_end(std::shared_ptr<const std::atomic<bool>> flag) noexcept;

/// The flag of this thread; null without one.
[[nodiscard]] const std::atomic<bool>* wait_end() noexcept;

/// The error of a wait that ended so.
[[nodiscard]] Failure wait_ended();

/// Waits until `ready`, the deadline, or the end of this thread's waits. @returns whether it is ready.
template <class Ready>
bool wait_on(std::condition_variable& wake, std::unique_lock<std::mutex>& lock, TimePoint deadline, Ready ready) {
  const auto* end = wait_end();
  if (end == nullptr || end->load(std::memory_order_relaxed)) {
    if (deadline == never)
      wake.wait(lock, std::move(ready));
    else if (!wake.wait_until(lock, deadline, ready))
      return false;
    return true;
  }
  // Nobody wakes it for that.
  constexpr std::chrono::milliseconds look{100};
  while (!wake.wait_until(lock, std::min(deadline, deadline_after(Clock::now(), look)), ready))
    if (end->load(std::memory_order_relaxed) || Clock::now() >= deadline)
      return false;
  return true;
}

} // namespace gpuactors::detail
