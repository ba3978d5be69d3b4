// Rows that need a GPU: each on a CUDA device, or on a host device to try them where there is none.
#pragma once

#include "rows.hpp"

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/types.hpp>

#include <vector>

namespace gpuactors::bench {

/// @returns why there is no GPU to measure on.
Result<void> look_for_gpu();

[[nodiscard]] std::vector<Benchmark> gpu_benchmarks(DeviceKind kind);

} // namespace gpuactors::bench
