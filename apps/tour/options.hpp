// The tour's command line.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <optional>
#include <string>
#include <vector>

namespace tour {

struct TourOptions {
  /// Programs to run, in this order; empty means all.
  std::vector<std::string> only;
  std::string devices;
  /// A running cluster to use instead of embedded ones; not set without a broker.
  std::optional<gpuactors::ConnectOptions> cluster;
  bool json = false;
  bool full = false;
  bool help = false;
};

/// @returns `invalid_argument`, saying what would be right.
[[nodiscard]] gpuactors::Result<TourOptions> parse_options(const std::vector<std::string>& arguments);

[[nodiscard]] std::string help_text();

} // namespace tour
