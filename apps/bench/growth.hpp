// How costs grow: with the number of devices, waiting requests, actors, nodes, and the size of messages.
#pragma once

#include <gpuactors/base/result.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace gpuactors::bench {

/// One line of a curve's picture: costs by sizes.
struct Series {
  std::string name;
  struct Point {
    double size = 0;
    double cost = 0;
  };
  std::vector<Point> points = {};
};

/// What one quantity costs as it grows.
struct Growth {
  /// The name of its files: "devices".
  std::string name;
  std::string title;
  std::string size_label;
  /// The unit of the costs.
  std::string unit;
  std::vector<Series> series;
};

struct GrowthRun {
  /// Where NAME.csv and NAME.svg go; made if it is not there.
  std::filesystem::path folder;
  /// Only curves whose name contains it.
  std::string filter;
  /// To the sizes that take seconds in all.
  bool quick = false;
};

/// Measures curve after curve, says on standard error how far it is, and writes each as soon as it is complete. A curve
/// ends early, and says so, when with the next size it would take more than two minutes in all, or half of the free
/// memory.
/// @returns `unavailable` when a file cannot be written, `not_found` when no curve has such a name.
Result<void> measure_growth(const GrowthRun& run);

/// "SIZE_LABEL,series,UNIT" and a line for each point.
[[nodiscard]] std::string to_csv(const Growth& growth);

/// The curves on logarithmic axes.
[[nodiscard]] std::string to_svg(const Growth& growth);

} // namespace gpuactors::bench
