// Ends the waits for futures of a task or actor whose lease ends.
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

/// Sets the flag that ends waits of this thread. Setting it to true ends the wait under way, but no later ones, so that
/// cleanup may still wait. Null: waits are not ended.
void set_wait_end(std::shared_ptr<const std::atomic<bool>> flag) noexcept;

/// Returns the flag of this thread; null without one.
[[nodiscard]] const std::atomic<bool>* wait_end() noexcept;

/// Returns the error of a wait that the flag has ended.
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
  // Polls the flag, because nobody wakes this thread when it is set.
  constexpr std::chrono::milliseconds look{100};
  while (!wake.wait_until(lock, std::min(deadline, deadline_after(Clock::now(), look)), ready))
    if (end->load(std::memory_order_relaxed) || Clock::now() >= deadline)
      return false;
  return true;
}

} // namespace gpuactors::detail
