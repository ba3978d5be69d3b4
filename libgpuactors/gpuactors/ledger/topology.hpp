// Which devices of a node are close to each other, and the closest set among some of them.
//
// The sum of the distances of all pairs decides; among equal sums, whoever comes first. Up to `sets_to_try` sets all
// are considered (12,870 ways to take 8 of 16), so the answer is exact. Beyond that it is greedy: from one device on,
// the one nearest to those taken already is added, ties to the first; this is done from each device in turn as long as
// it costs less than `steps_to_grow` in all, and the best result counts.
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

  /// From the node's own distances; without them, from the NUMA nodes of its devices: 1 within one, 2 otherwise.
  explicit Topology(const NodeSpec& node);

  /// Whether anything is known.
  [[nodiscard]] bool is_known() const {
    return size_ > 0;
  }

  /// Of `devices`, indices in order of preference, which `count` are closest: their positions, ascending. The first
  /// `count` when nothing is known.
  [[nodiscard]] std::vector<std::size_t> closest(const std::vector<int>& devices, std::size_t count) const;

private:
  [[nodiscard]] std::int64_t between(int a, int b) const {
    return distances_[static_cast<std::size_t>(a) * size_ + static_cast<std::size_t>(b)];
  }

  std::size_t size_ = 0;
  std::vector<std::uint16_t> distances_;
};

} // namespace gpuactors::ledger_detail
