// How long things took, counted in buckets that Prometheus can add up over servers.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace serve {

/// Durations by size. A plain value; whoever owns it guards it.
class Histogram {
public:
  /// Upper bounds in seconds; what is longer counts too, in a last bucket without one.
  static constexpr std::array<double, 19> bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                 0.25,   0.5,     1,      2.5,   5,      10,    30,   100,   300};

  void add(gpuactors::Duration duration) {
    const auto seconds = std::max(gpuactors::to_seconds(duration), 0.0);
    const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
    ++counts_[static_cast<std::size_t>(bucket)];
    ++count_;
    sum_ += seconds;
  }

  /// How many took at most `bounds[index]`.
  [[nodiscard]] std::uint64_t at_most(std::size_t index) const noexcept {
    std::uint64_t result = 0;
    for (std::size_t i = 0; i <= index; ++i)
      result += counts_[i];
    return result;
  }

  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_;
  }

  /// Seconds of all of them.
  [[nodiscard]] double sum() const noexcept {
    return sum_;
  }

private:
  std::array<std::uint64_t, bounds.size() + 1> counts_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// Of one version of a model.
struct Latencies {
  /// From arrival to answer, of requests that succeeded; and of that the wait for their batch.
  Histogram request;
  Histogram queue;
  /// Of batches, on the device; in generative models, of requests in a replica.
  Histogram infer;
  /// Of generative models: from arrival to the first item.
  Histogram first_item;
};

} // namespace serve
