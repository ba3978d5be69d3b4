// What a measurement was made on, and with which versions.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpuactors::bench {

/// Names and what this machine and program have of each: processor, kernel, compiler, libraries, GPUs. In order.
using Machine = std::vector<std::pair<std::string, std::string>>;

/// Looks at the machine. What cannot be found out is "unknown", what is not there "none". Does not start a GPU.
[[nodiscard]] Machine this_machine();

} // namespace gpuactors::bench
