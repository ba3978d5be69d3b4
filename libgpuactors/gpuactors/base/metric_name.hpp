// The names of metrics that programs publish: those of Prometheus, without what is taken.
#pragma once

#include <gpuactors/base/result.hpp>

#include <string_view>

namespace gpuactors {

/// Checks that a program may publish a metric under this name: a letter or _, then letters, digits and _, at most
/// `limits::metric_name_length` in all. Names that begin with "gpuactors_" are the cluster's own. Pure; any thread.
/// @returns `invalid_argument` with the name and the rule that it breaks.
Result<void> check_metric_name(std::string_view name);

} // namespace gpuactors
