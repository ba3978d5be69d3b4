// Rows that need a GPU: each on a CUDA device, or on a host device to try them where there is none.
#pragma once

#include "floor.hpp"
#include "rows.hpp"

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/types.hpp>

#include <string>
#include <vector>

namespace gpuactors::bench {

/// @returns why there is no GPU to measure on.
Result<void> look_for_gpu();

/// What a floor's actor does on a GPU, given by its SPEC: what a short task does, by the bare driver and cuBLAS.
[[nodiscard]] MakeWork bare_gpu_task(const std::string& spec);

/// On a CUDA device those beside bare CUDA too, if they were built. With `smoke` these have small sizes.
[[nodiscard]] std::vector<Benchmark> gpu_benchmarks(DeviceKind kind, bool smoke);

} // namespace gpuactors::bench
