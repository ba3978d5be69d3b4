// How benchmarks are run: rows of a measurement and its floor, taken in turns, medians of ratios.
#pragma once

#include <gpuactors/base/result.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::bench {

/// The value, or the end of the program: a benchmark has nothing to fall back on.
template <class T>
T check(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "gpuactors-bench: {}\n", to_string(result.error()));
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

/// Nanoseconds of the steady clock.
[[nodiscard]] double now_ns();

/// The middle one; of an even number, the upper one of the two. Not of none.
[[nodiscard]] double median(std::vector<double> values);

/// What a row stands beside as its floor.
enum class FloorKind : std::uint8_t {
  /// The same with nothing of ours in it.
  floor,
  /// A number that the project wants, on every machine.
  target,
  /// Our own with less to do: fewer devices, requests or tasks.
  smaller
};

/// "floor", "target", "smaller".
[[nodiscard]] std::string_view to_string(FloorKind kind);

/// One row: what was measured, the floor under it, the peer beside it, and what must hold. Values of 0 mean "none".
struct Row {
  std::string name;
  std::string unit;
  /// Where the same is measured in several ways: "plain", "tls", "embedded". Else empty.
  std::string mode = {};
  double value = 0;
  double floor = 0;
  FloorKind floor_kind = FloorKind::floor;
  /// Median of value / floor over the repetitions, and its extremes.
  double ratio = 0;
  double least = 0;
  double most = 0;
  /// The bound of that ratio; at most when `at_most`, else at least.
  double bound = 0;
  /// Whether less is better: times and memory, not rates.
  bool at_most = true;
  /// The same done by another framework (`attach_peers`), under this name, or the row's own if empty.
  double peer = 0;
  std::string peer_name = {};
  /// Who the peer is: "Ray 2.60.0".
  std::string peer_by = {};
  /// The bound of value / peer, at most or at least as above.
  double peer_bound = 0;

  [[nodiscard]] double peer_ratio() const {
    return peer == 0 ? 0 : value / peer;
  }

  /// Whether a ratio of this row keeps to a bound of it; true without one.
  [[nodiscard]] bool keeps(double of, double within) const {
    return of == 0 || within == 0 || (at_most ? of <= within : of >= within);
  }

  [[nodiscard]] bool holds() const {
    return keeps(ratio, bound) && keeps(peer_ratio(), peer_bound);
  }
};

/// Runs `value` and `floor` in turns, `repeat` times each after one warm-up, and takes medians. Machines slow down and
/// speed up: only neighbours in time are compared.
[[nodiscard]] Row measure(std::string name, std::string unit, int repeat, const std::function<double()>& value,
                          const std::function<double()>& floor);

/// The same without a floor: `least` and `most` are then those of the value itself, as parts of the median.
[[nodiscard]] Row measure(std::string name, std::string unit, int repeat, const std::function<double()>& value);

/// Puts medians, and the extremes of the ratios, into a row. `floors` is empty, or as long as `values`.
void summarize(Row& row, const std::vector<double>& values, const std::vector<double>& floors);

} // namespace gpuactors::bench
