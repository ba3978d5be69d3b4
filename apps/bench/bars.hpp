// Rows as a picture: bars of ratios on a logarithmic axis.
#pragma once

#include "report.hpp"

#include <string>

namespace gpuactors::bench {

/// For each row how fast it is as a multiple of its floor (or of what stands there, by its kind), and of its peer: to
/// the right of the line at 1 is faster. (For times and memory, where less is better, that is the inverse of the
/// ratio.) A mark stands at each bound.
[[nodiscard]] std::string bars_svg(const Report& report);

} // namespace gpuactors::bench
