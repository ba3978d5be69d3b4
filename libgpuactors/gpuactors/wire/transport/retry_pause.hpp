// RetryPause: how long to wait before the next attempt at something that many want at once. Internal to the layer.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <algorithm>
#include <random>

namespace gpuactors::transport {

/// Pauses that grow twofold up to a longest one, each of them random between its half and its whole: those who were
/// sent away together do not come back together. One thread.
class RetryPause {
public:
  RetryPause(Duration first, Duration longest) : next_(first), longest_(longest) {
    // nop
  }

  Duration next() {
    thread_local std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution<Duration::rep> pause{next_.count() / 2, next_.count()};
    const Duration result{pause(random)};
    next_ = std::min(2 * next_, longest_);
    return result;
  }

private:
  Duration next_;
  const Duration longest_;
};

} // namespace gpuactors::transport
