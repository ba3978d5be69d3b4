// How long batches take: a table that learns from each one, by size and by the share of a device that it ran on.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/units.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace serve::batching {

/// Measured times of batches. Sizes are rounded up to powers of two; what is told is nearly the longest that a batch of
/// this size takes (the mean and three mean deviations, both forgetting what is long ago).
///
/// Estimates never fall as a batch grows. Between two measured sizes the larger one bounds them; beyond the largest
/// they grow in proportion; a share that was never measured takes as long as the next smaller one that was, or
/// proportionally longer than the next larger one. As long as nothing is measured they are zero: nothing is refused for
/// want of knowledge. What is known of a size counts only within what others take that were measured long after it: one
/// that once took too long to be tried again would never be measured again. No clock, no thread; whoever owns it guards
/// it.
class BatchTimes {
public:
  /// Learns that a batch of `rows` on `share` took so long, from its start to its answer.
  void add(gpuactors::Share share, std::uint64_t rows, gpuactors::Duration took);

  /// How long a batch of `rows` on `share` is expected to take at most; 0 for 0 rows.
  [[nodiscard]] gpuactors::Duration estimate(gpuactors::Share share, std::uint64_t rows) const;

  /// Whether batches of this size were measured on this share.
  [[nodiscard]] bool measured(gpuactors::Share share, std::uint64_t rows) const;

private:
  /// Powers of two up to 2^24 rows; larger batches count as that.
  static constexpr std::size_t classes = 25;

  /// What is known of one size.
  struct Entry {
    bool measured = false;
    double mean = 0;      // nanoseconds
    double deviation = 0; // mean of the absolute one
    /// Which measurement of its share was the last of this size.
    std::uint64_t last = 0;

    [[nodiscard]] double bound() const noexcept {
      return mean + 3 * deviation;
    }
  };

  /// What is known of one share.
  struct Row {
    std::array<Entry, classes> sizes;
    std::uint64_t measurements = 0;
    /// By size: asked for by each request, and changed by a batch.
    std::array<double, classes> estimates{};
  };

  [[nodiscard]] static std::size_t class_of(std::uint64_t rows) noexcept;
  /// What a measured size is thought to take, by itself and by those that were measured long after it.
  [[nodiscard]] static double bound(const Row& row, std::size_t size);
  static void estimate(Row& row);

  std::map<gpuactors::Share, Row> rows_;
};

} // namespace serve::batching
