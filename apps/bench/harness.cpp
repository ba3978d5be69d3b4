#include "harness.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace gpuactors::bench {

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string_view to_string(FloorKind kind) {
  constexpr std::array<std::string_view, 3> names{"floor", "target", "smaller"};
  return names[static_cast<std::size_t>(kind)];
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void summarize(Row& row, const std::vector<double>& values, const std::vector<double>& floors) {
  row.value = median(values);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < values.size(); ++i)
    ratios.push_back(values[i] / (floors.empty() ? row.value : floors[i]));
  row.least = *std::min_element(ratios.begin(), ratios.end());
  row.most = *std::max_element(ratios.begin(), ratios.end());
  if (floors.empty())
    return;
  row.floor = median(floors);
  row.ratio = median(ratios);
}

Row measure(std::string name, std::string unit, int repeat, const std::function<double()>& value,
            const std::function<double()>& floor) {
  value();
  if (floor)
    floor();
  std::vector<double> values;
  std::vector<double> floors;
  for (int i = 0; i < repeat; ++i) {
    // By turns, so that what the first leaves behind is in the way of both.
    const bool floor_first = floor && i % 2 == 1;
    if (floor_first)
      floors.push_back(floor());
    values.push_back(value());
    if (floor && !floor_first)
      floors.push_back(floor());
  }
  Row row;
  row.name = std::move(name);
  row.unit = std::move(unit);
  summarize(row, values, floors);
  return row;
}

Row measure(std::string name, std::string unit, int repeat, const std::function<double()>& value) {
  return measure(std::move(name), std::move(unit), repeat, value, {});
}

} // namespace gpuactors::bench
