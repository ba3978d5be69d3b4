// Matrix products on the CPU: OpenBLAS for each tile, threads by us.
#pragma once

#include <gpuactors/device/backend.hpp>

#include <cstddef>
#include <cstdint>

namespace gpuactors::host {

/// How C is cut: every tile but the last of a row or column is this large.
struct GemmTiles {
  std::int64_t tile_rows = 0;
  std::int64_t tile_columns = 0;
  std::size_t across = 0;
  std::size_t count = 0;
};

/// Cuts C for `threads` threads. Depends on the arguments only, and never cuts k: the result of a product is the same
/// bit for bit however many threads come to help. Pure.
[[nodiscard]] GemmTiles cut_gemm(std::int64_t m, std::int64_t n, std::int64_t k, int threads);

/// Loads OpenBLAS and sets it to one thread, once for the process: its threaded calls take turns on one set of threads,
/// and it has no thread count of one caller's own.
///
/// It is loaded when the first product is asked for, and not linked: it has threads and 60 KiB of memory for each
/// thread of the process, which no process should pay that multiplies nothing.
/// @returns `unsupported` where there is none, saying what to install. Any thread.
[[nodiscard]] Result<void> load_blas();

/// Computes one tile of `product` on the calling thread. Only after `load_blas`.
void run_gemm_tile(const Gemm& product, const GemmTiles& tiles, std::size_t tile);

} // namespace gpuactors::host
