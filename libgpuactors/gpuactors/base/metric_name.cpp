#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/metric_name.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gpuactors {

namespace {

// Not those of <cctype>: a locale must not change what a name is.
bool may_begin_metric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool may_follow_in_metric(char c) {
  return may_begin_metric(c) || (c >= '0' && c <= '9');
}

} // namespace

Result<void> check_metric_name(std::string_view name) {
  if (name.size() > limits::metric_name_length)
    return fail(Errc::invalid_argument, fmt::format("the name of a metric has {} characters: at most {} are allowed",
                                                    name.size(), limits::metric_name_length));
  if (name.empty() || !may_begin_metric(name.front()) || !std::all_of(name.begin(), name.end(), may_follow_in_metric))
    return fail(
        Errc::invalid_argument,
        fmt::format("\"{}\" is no name for a metric: a letter or _ is expected, then letters, digits and _", name));
  if (name.starts_with("gpuactors_"))
    return fail(Errc::invalid_argument,
                fmt::format("metric {}: names that begin with gpuactors_ are the cluster's own", name));
  return {};
}

Result<void> check_histogram_bounds(std::string_view name, const std::vector<double>& bounds) {
  if (bounds.empty() || bounds.size() > limits::histogram_bounds)
    return fail(Errc::invalid_argument, fmt::format("histogram {} has {} bounds: 1 to {} are allowed", name,
                                                    bounds.size(), limits::histogram_bounds));
  for (std::size_t i = 0; i < bounds.size(); ++i)
    if (!std::isfinite(bounds[i]) || (i > 0 && bounds[i] <= bounds[i - 1]))
      return fail(Errc::invalid_argument,
                  fmt::format("bound {} of histogram {} is {}: a finite number above the bound before it is expected",
                              i + 1, name, bounds[i]));
  return {};
}

std::array<std::string, 3> histogram_parts(std::string_view name) {
  const std::string base{name};
  return {base + "_bucket", base + "_sum", base + "_count"};
}

} // namespace gpuactors
