// Rows beside bare CUDA and bare cuBLAS, in the process of the actor that they stand beside.
#pragma once

#include "../rows.hpp"

#include <gpuactors/device/backend.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gpuactors::bench {

/// Whether this program was built with the CUDA toolkit, which these rows need.
[[nodiscard]] bool has_bare_cuda_benchmarks();

/// What a short task does, with nothing of ours in it: two n x n matrices of ones go to the device, their product comes
/// back. Only where `has_bare_cuda_benchmarks()`. To be made, called and destroyed on one thread.
/// @param share whose SMs it has.
[[nodiscard]] std::function<void()> make_bare_task(const std::shared_ptr<Device>& device, Share share, std::int64_t n);

/// None if it was not. With `smoke` their sizes are small, and their names say so.
[[nodiscard]] std::vector<Benchmark> bare_cuda_benchmarks(bool smoke);

} // namespace gpuactors::bench
