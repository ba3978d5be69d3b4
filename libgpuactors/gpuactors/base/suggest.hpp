// Suggestions for mistyped names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// Returns how many slips `a` is away from `b`: insertions, deletions, substitutions and swaps of neighbours. "gpsu" is
/// one away from "gpus". Pure; any thread. Time and memory grow with the product of the lengths.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns up to `most` of `known` that resemble `name` (edit distance, or one contains the other), best first, ties
/// in the order of `known`; none if `name` is longer than any name may be. Pure; any thread.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known,
                                                     std::size_t most = 3);

/// Renders the hint after "no task named x": `; did you mean "y" or "z"?`, or the list of known names if none is
/// similar. Empty if no names are known.
[[nodiscard]] std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

} // namespace gpuactors
