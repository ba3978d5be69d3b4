#include "harness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace gpuactors::bench {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

} // namespace

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Row measure(std::string name, std::string unit, int repeat, const std::function<double()>& value,
            const std::function<double()>& floor) {
  value();
  floor();
  std::vector<double> values;
  std::vector<double> floors;
  std::vector<double> ratios;
  for (int i = 0; i < repeat; ++i) {
    values.push_back(value());
    floors.push_back(floor());
    ratios.push_back(values.back() / floors.back());
  }
  Row row;
  row.name = std::move(name);
  row.unit = std::move(unit);
  row.value = median(values);
  row.floor = median(floors);
  row.ratio = median(ratios);
  row.least = *std::min_element(ratios.begin(), ratios.end());
  row.most = *std::max_element(ratios.begin(), ratios.end());
  return row;
}

void print_table(const std::vector<Row>& rows) {
  fmt::print("{:<34} {:>12} {:>12}  {:<8} {:>7} {:>17}  {:<10} {}\n", "ROW", "VALUE", "FLOOR", "UNIT", "RATIO",
             "LEAST..MOST", "BOUND", "");
  for (const auto& row : rows)
    fmt::print("{:<34} {:>12.2f} {:>12.2f}  {:<8} {:>7.3f} {:>17}  {:<10} {}\n", row.name, row.value, row.floor,
               row.unit, row.ratio, fmt::format("{:.3f}..{:.3f}", row.least, row.most),
               fmt::format("{} {}", row.at_most ? "<=" : ">=", row.bound), row.holds() ? "holds" : "MISSED");
}

void print_json(const std::vector<Row>& rows, std::FILE* file) {
  fmt::print(file, "{{\"rows\":[");
  const char* separator = "";
  for (const auto& row : rows) {
    fmt::print(file,
               "{}{{\"name\":\"{}\",\"value\":{},\"unit\":\"{}\",\"floor\":{},\"floor_ratio\":{},\"least\":{},"
               "\"most\":{},\"bound\":{},\"holds\":{}}}",
               separator, row.name, row.value, row.unit, row.floor, row.ratio, row.least, row.most, row.bound,
               row.holds());
    separator = ",";
  }
  fmt::print(file, "]}}\n");
}

} // namespace gpuactors::bench
