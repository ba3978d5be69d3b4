#include "open_loop.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <latch>
#include <limits>
#include <thread>
#include <vector>

namespace serve {

using gpuactors::Clock;
using gpuactors::Errc;

OpenLoopResult run_open_loop(Service& service, const InferRequest& request, double rate, double seconds) {
  const auto count = static_cast<std::size_t>(std::max(1.0, rate * seconds));
  std::vector<double> times(count, std::numeric_limits<double>::infinity());
  std::atomic<std::size_t> refused{0};
  std::atomic<std::size_t> failed{0};
  std::latch answered{static_cast<std::ptrdiff_t>(count)};
  const auto start = Clock::now();
  const std::chrono::duration<double> each{1 / rate};
  for (std::size_t i = 0; i < count; ++i) {
    const auto due = start + std::chrono::duration_cast<gpuactors::Duration>(each * static_cast<double>(i));
    std::this_thread::sleep_until(due); // returns at once when it is late: no request is left out
    service.infer(request, [&, i, due](const gpuactors::Result<InferReply>& reply) {
      if (reply)
        times[i] = std::chrono::duration<double, std::milli>{Clock::now() - due}.count();
      else
        ++(reply.error().code() == Errc::deadline_exceeded ? failed : refused);
      answered.count_down();
    });
  }
  answered.wait();
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return times[std::min(count - 1, static_cast<std::size_t>(std::ceil(part * static_cast<double>(count))) - 1)];
  };
  return {count, refused, failed, at(0.5), at(0.99)};
}

} // namespace serve
