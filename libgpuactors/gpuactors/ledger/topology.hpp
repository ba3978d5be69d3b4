// The topology of a node: the distances between its devices, and the choice of devices that are close to each other.
//
// The best set has the least sum of the distances of all pairs; among equal sums, the first set wins. If there are at
// most `sets_to_try` sets (12,870 ways to take 8 of 16), all are considered, and the result is exact. Beyond that the
// search is greedy: starting from one device, it repeatedly adds the device nearest to those already taken, ties to the
// first. This is repeated with each device in turn as the start, as long as it takes fewer than `steps_to_grow` steps
// in total, and the best result wins.
#pragma once

#include <gpuactors/ledger/node.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuactors::ledger_detail {

inline constexpr std::size_t sets_to_try = 20'000;
inline constexpr std::size_t steps_to_grow = 1'000'000;

/// The distances between the devices of one node.
class Topology {
public:
  Topology() = default;

  /// Takes the distances that the node reports; without them, derives them from the devices' NUMA nodes: 1 within one,
  /// 2 otherwise.
  explicit Topology(const NodeSpec& node);

  /// Returns whether any distances are known.
  [[nodiscard]] bool is_known() const {
    return size_ > 0;
  }

  /// Returns the ascending positions in `devices` (indices in order of preference) of the `count` devices that are
  /// closest to each other; the first `count` if no distances are known.
  [[nodiscard]] std::vector<std::size_t> closest(const std::vector<int>& devices, std::size_t count) const;

private:
  [[nodiscard]] std::int64_t between(int a, int b) const {
    return distances_[static_cast<std::size_t>(a) * size_ + static_cast<std::size_t>(b)];
  }

  std::size_t size_ = 0;
  std::vector<std::uint16_t> distances_;
};

} // namespace gpuactors::ledger_detail
