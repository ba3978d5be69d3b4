// The rules for metrics that programs publish: names and bounds as in Prometheus, except reserved names.
#pragma once

#include <gpuactors/base/result.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// Checks that a program may publish a metric under this name: a letter or _, then letters, digits and _, at most
/// `limits::metric_name_length` in all. Names that begin with "gpuactors_" are the cluster's own. Pure; any thread.
/// @returns `invalid_argument` with the name and the rule that it breaks.
Result<void> check_metric_name(std::string_view name);

/// Checks the bounds of a histogram: 1 to `limits::histogram_bounds` finite numbers, each more than the one before it.
/// Pure; any thread.
/// @returns `invalid_argument` with the histogram's name and the rule that they break.
Result<void> check_histogram_bounds(std::string_view name, const std::vector<double>& bounds);

/// Returns the names under which Prometheus gets the parts of a histogram.
[[nodiscard]] std::array<std::string, 3> histogram_parts(std::string_view name);

} // namespace gpuactors
