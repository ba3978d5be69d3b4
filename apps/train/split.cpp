#include "split.hpp"

#include <apps/nn/random.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace train {

Split stratified_split(std::span<const std::int32_t> labels, double test_part, std::uint64_t seed) {
  std::map<std::int32_t, std::vector<std::int32_t>> by_label;
  for (std::size_t row = 0; row < labels.size(); ++row)
    by_label[labels[row]].push_back(static_cast<std::int32_t>(row));
  Split split;
  double wanted = 0;
  for (auto& [label, rows] : by_label) {
    nn::Random random{seed, static_cast<std::uint64_t>(label)};
    nn::shuffle(rows, random);
    // What rounding takes from one label, the next ones give back.
    wanted += static_cast<double>(rows.size()) * test_part;
    const auto due = std::llround(wanted) - static_cast<std::int64_t>(split.test.size());
    const auto count = std::clamp<std::int64_t>(due, 0, static_cast<std::int64_t>(rows.size()));
    split.test.insert(split.test.end(), rows.begin(), rows.begin() + count);
    split.train.insert(split.train.end(), rows.begin() + count, rows.end());
  }
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.test.begin(), split.test.end());
  return split;
}

} // namespace train
