// Rows that need a GPU: each on a CUDA device, or on a host device to try them where there is none.
#pragma once

#include "rows.hpp"

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/types.hpp>

#include <vector>

namespace gpuactors::bench {

/// @returns why there is no GPU to measure on.
Result<void> look_for_gpu();

/// On a CUDA device those beside bare CUDA too, if they were built. With `smoke` these have small sizes.
[[nodiscard]] std::vector<Benchmark> gpu_benchmarks(DeviceKind kind, bool smoke);

} // namespace gpuactors::bench
