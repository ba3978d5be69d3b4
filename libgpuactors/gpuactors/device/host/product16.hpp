// Products of 16-bit elements on the CPU, which has no instructions for them: blocks are widened to f32, multiplied by
// OpenBLAS, and the result is rounded once.
#pragma once

#include <gpuactors/device/backend.hpp>

#include <cstdint>

namespace gpuactors::host {

/// A part of C.
struct GemmTile {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Computes a whole product of f32 on the calling thread.
using MultiplyFloats = void (*)(const Gemm& product);

/// Computes one tile of a product of f16 or bf16 on the calling thread. Sums and scales in f32. Takes up to 2 MiB of
/// the machine's memory meanwhile, which no quota counts.
/// @returns `out_of_memory` if the machine has not that much.
Result<void> run_16_bit_tile(const Gemm& product, const GemmTile& tile, MultiplyFloats multiply);

} // namespace gpuactors::host
