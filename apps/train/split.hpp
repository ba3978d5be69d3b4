// Which rows are learnt from and which are kept for the test.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace train {

/// Rows by their numbers. A plain value.
struct Split {
  std::vector<std::int32_t> train;
  std::vector<std::int32_t> test;
};

/// Puts `test_part` (0 to below 1) of the rows of each label aside, rounded so that the whole has the part that is
/// asked for. The seed decides which, on every machine alike. Rows of the training part come in ascending order.
[[nodiscard]] Split stratified_split(std::span<const std::int32_t> labels, double test_part, std::uint64_t seed);

} // namespace train
