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
  /// A running cluster, or the devices of embedded ones.
  gpuactors::OpenOptions cluster = gpuactors::OpenOptions::from_environment();
  bool json = false;
  bool full = false;
};

/// @returns nothing after --help, which it prints; `invalid_argument`, saying what would be right.
[[nodiscard]] gpuactors::Result<std::optional<TourOptions>> parse_options(int argc, const char* const* argv);

} // namespace tour
