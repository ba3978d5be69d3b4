// The names that a mistyped name was probably meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// Returns up to `most` of `known` that resemble `name` (edit distance, or one contains the other), best first, ties
/// in the order of `known`. Pure; any thread.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known,
                                                     std::size_t most = 3);

/// Renders the hint that follows "no task named x": `; did you mean "y" or "z"?`, or the list of what there is when
/// nothing resembles it. Empty when nothing is known.
[[nodiscard]] std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

} // namespace gpuactors
