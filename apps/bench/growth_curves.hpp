// The curves that there are, and what measures each.
#pragma once

#include "growth.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::bench {

/// In order: name, and the measurement, to small sizes only if it is to be quick.
[[nodiscard]] std::vector<std::pair<std::string, std::function<Growth(bool quick)>>> growth_curves();

} // namespace gpuactors::bench
