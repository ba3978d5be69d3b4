// Decides where on a device's lane of a picture a lease is drawn.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace gpuactors::plan_detail {

/// A part of a lane from `low` to below `high`, in 1/10000 of a device.
struct Segment {
  std::int64_t low = 0;
  std::int64_t high = 0;

  friend bool operator==(const Segment&, const Segment&) = default;
};

/// The free segments of a lane.
class Lane {
public:
  Lane() = default;

  explicit Lane(std::vector<Segment> free) : free_(std::move(free)) {
    // nop
  }

  /// Takes `units` from the lowest gap that has them in one piece, else from the lowest gaps; fewer if fewer are free.
  [[nodiscard]] std::vector<Segment> take(std::int64_t units);

  void give_back(const std::vector<Segment>& segments);

  [[nodiscard]] const std::vector<Segment>& free() const noexcept {
    return free_;
  }

private:
  // Ascending; neighbours do not touch.
  std::vector<Segment> free_;
};

} // namespace gpuactors::plan_detail
