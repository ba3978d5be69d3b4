// Sleeping for microseconds.
#include <gpuactors/device/detail/patience.hpp>

#include <sys/prctl.h>

#include <ctime>

namespace gpuactors::detail {

namespace {

/// Nanoseconds by which the kernel may be late with the timers of a thread: as few as it takes.
constexpr unsigned long least_slack = 1;

} // namespace

void sleep_precisely(Duration pause) noexcept {
  // The thread is its user's, who may want it as it was.
  const auto slack = ::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  wait_precisely();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(pause);
  const timespec span{seconds.count(), std::chrono::nanoseconds{pause - seconds}.count()};
  // A signal ends it early, and then it is only looked at early.
  (void)::nanosleep(&span, nullptr);
  if (slack > 0)
    (void)::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack), 0, 0, 0);
}

void wait_precisely() noexcept {
  (void)::prctl(PR_SET_TIMERSLACK, least_slack, 0, 0, 0);
}

} // namespace gpuactors::detail
