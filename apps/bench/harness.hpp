// How benchmarks are run and reported: rows of a measurement and its floor, taken in turns, medians of ratios.
#pragma once

#include <gpuactors/base/result.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace gpuactors::bench {

/// The value, or the end of the program: a benchmark has nothing to fall back on.
template <class T>
T check(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "gpuactors-bench: {}\n", to_string(result.error()));
    std::exit(1);
  }
  return std::move(*result);
}

/// Nanoseconds of the steady clock.
[[nodiscard]] double now_ns();

/// One row: what was measured, the floor under it, and what must hold.
struct Row {
  std::string name;
  std::string unit;
  double value = 0;
  double floor = 0;
  /// Median of value / floor over the repetitions, and its extremes.
  double ratio = 0;
  double least = 0;
  double most = 0;
  /// The bound of the ratio; at most when `at_most`, else at least.
  double bound = 0;
  bool at_most = true;

  [[nodiscard]] bool holds() const {
    return at_most ? ratio <= bound : ratio >= bound;
  }
};

/// Runs `value` and `floor` in turns, `repeat` times each after one warm-up, and takes medians. Machines slow down and
/// speed up: only neighbours in time are compared.
[[nodiscard]] Row measure(std::string name, std::string unit, int repeat, const std::function<double()>& value,
                          const std::function<double()>& floor);

void print_table(const std::vector<Row>& rows);
void print_json(const std::vector<Row>& rows, std::FILE* file);

} // namespace gpuactors::bench
