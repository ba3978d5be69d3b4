// Rows beside bare CUDA and bare cuBLAS, in the process of the actor that they stand beside.
#pragma once

#include "../rows.hpp"

#include <vector>

namespace gpuactors::bench {

/// Whether this program was built with the CUDA toolkit, which these rows need.
[[nodiscard]] bool has_bare_cuda_benchmarks();

/// None if it was not. With `smoke` their sizes are small, and their names say so.
[[nodiscard]] std::vector<Benchmark> bare_cuda_benchmarks(bool smoke);

} // namespace gpuactors::bench
