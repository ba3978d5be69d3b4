// Matrix products on the CPU: OpenBLAS computes the tiles, the host device provides the threads.
#pragma once

#include <gpuactors/device/backend.hpp>

#include <cstddef>
#include <cstdint>

namespace gpuactors::host {

/// How C is cut into tiles: every tile but the last of a row or column is this large.
struct GemmTiles {
  std::int64_t tile_rows = 0;
  std::int64_t tile_columns = 0;
  std::size_t across = 0;
  std::size_t count = 0;
};

/// Cuts C for `threads` threads. The result depends on the arguments only, and k is never cut, so a product is
/// bit-identical however many threads come to help. Pure.
[[nodiscard]] GemmTiles cut_gemm(std::int64_t m, std::int64_t n, std::int64_t k, int threads);

/// Loads OpenBLAS and sets it to one thread, once for the process: its own threading serializes calls on one set of
/// threads, and has no thread count per caller.
///
/// OpenBLAS is loaded at the first product instead of being linked: it has threads of its own and takes 60 KiB of
/// memory for each thread of the process, a cost for processes with products only.
/// @returns `unsupported` if there is no OpenBLAS, with what to install. Any thread.
[[nodiscard]] Result<void> load_blas();

/// Computes one tile of `product` on the calling thread. Only after `load_blas`.
/// @returns `out_of_memory` if the machine has no memory left for a product of 16-bit elements.
Result<void> run_gemm_tile(const Gemm& product, const GemmTiles& tiles, std::size_t tile);

} // namespace gpuactors::host
