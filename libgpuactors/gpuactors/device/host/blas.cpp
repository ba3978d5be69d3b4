// Tiles of a matrix product, each a single-threaded call of OpenBLAS.
#include <gpuactors/device/host/blas.hpp>
#include <gpuactors/device/host/product16.hpp>

#include <cblas.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace gpuactors::host {

namespace {

/// The functions of OpenBLAS that are used.
struct OpenBlas {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<OpenBlas> open_blas() {
  constexpr auto* name = "libopenblas.so.0";
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(Errc::unsupported, fmt::format("host devices multiply matrices with OpenBLAS, which is not here ({}): "
                                               "install libopenblas0",
                                               dlerror()));
  OpenBlas blas;
  if (!find(library, "cblas_sgemm", blas.sgemm) || !find(library, "cblas_dgemm", blas.dgemm)
      || !find(library, "openblas_set_num_threads", blas.set_num_threads))
    return fail(Errc::unsupported, fmt::format("{} lacks the C interface of OpenBLAS: {}", name, dlerror()));
  blas.set_num_threads(1);
  return blas;
}

const Result<OpenBlas>& blas() {
  static const auto opened = open_blas();
  return opened;
}

/// A product with fewer multiplications is not worth a second thread.
constexpr std::int64_t least_work = 64 * 64 * 64;
/// Smaller tiles lose more to packing than they gain.
constexpr std::int64_t least_edge = 64;
/// Tile edges are multiples of this, which suits OpenBLAS's kernels.
constexpr std::int64_t grain = 32;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t tile_edge(std::int64_t size, std::int64_t parts) {
  return std::min(size, ceil_div(ceil_div(size, parts), grain) * grain);
}

/// Returns the rows and columns of a grid of `threads` tiles, or of fewer where tiles would get too small: as many
/// tiles as threads, so that all finish together, and as square as that allows, so that each thread packs as little as
/// possible.
std::pair<std::int64_t, std::int64_t> choose_grid(std::int64_t m, std::int64_t n, std::int64_t threads) {
  const auto too_small = [](std::int64_t size, std::int64_t parts) { return parts > 1 && size / parts < least_edge; };
  for (auto tiles = threads; tiles > 1; --tiles) {
    std::pair<std::int64_t, std::int64_t> best{0, 0};
    auto least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t down = 1; down <= tiles; ++down) {
      const auto across = tiles / down;
      if (down * across != tiles || too_small(m, down) || too_small(n, across))
        continue;
      if (m / down + n / across < least) {
        least = m / down + n / across;
        best = {down, across};
      }
    }
    if (best.first != 0)
      return best;
  }
  return {1, 1};
}

CBLAS_TRANSPOSE op(bool transpose) {
  return transpose ? CblasTrans : CblasNoTrans;
}

GemmTile extent_of(const Gemm& g, const GemmTiles& tiles, std::size_t tile) {
  const auto row = static_cast<std::int64_t>(tile / tiles.across) * tiles.tile_rows;
  const auto column = static_cast<std::int64_t>(tile % tiles.across) * tiles.tile_columns;
  return {row, column, std::min(tiles.tile_rows, g.m - row), std::min(tiles.tile_columns, g.n - column)};
}

template <class T, class Call>
void run_tile(const Gemm& g, const GemmTile& tile, Call call) {
  const auto* a = static_cast<const T*>(g.a) + (g.transpose_a ? tile.row : tile.row * g.lda);
  const auto* b = static_cast<const T*>(g.b) + (g.transpose_b ? tile.column * g.ldb : tile.column);
  auto* c = static_cast<T*>(g.c) + tile.row * g.ldc + tile.column;
  const auto narrow = [](std::int64_t value) { return static_cast<blasint>(value); };
  call(CblasRowMajor, op(g.transpose_a), op(g.transpose_b), narrow(tile.rows), narrow(tile.columns), narrow(g.k),
       static_cast<T>(g.alpha), a, narrow(g.lda), b, narrow(g.ldb), static_cast<T>(g.beta), c, narrow(g.ldc));
}

} // namespace

GemmTiles cut_gemm(std::int64_t m, std::int64_t n, std::int64_t k, int threads) {
  GemmTiles tiles{m, n, 1, 1};
  // Compares each size first, because m * n * k may overflow.
  if (threads < 2 || (m < least_work && n < least_work && k < least_work && m * n * k < least_work))
    return tiles;
  const auto [down, across] = choose_grid(m, n, threads);
  tiles.tile_rows = tile_edge(m, down);
  tiles.tile_columns = tile_edge(n, across);
  tiles.across = static_cast<std::size_t>(ceil_div(n, tiles.tile_columns));
  tiles.count = static_cast<std::size_t>(ceil_div(m, tiles.tile_rows)) * tiles.across;
  return tiles;
}

Result<void> run_gemm_tile(const Gemm& product, const GemmTiles& tiles, std::size_t tile) {
  const auto extent = extent_of(product, tiles, tile);
  if (product.dtype == DType::f32)
    run_tile<float>(product, extent, blas()->sgemm);
  else if (product.dtype == DType::f64)
    run_tile<double>(product, extent, blas()->dgemm);
  else
    return run_16_bit_tile(product, extent, [](const Gemm& g) { run_tile<float>(g, {0, 0, g.m, g.n}, blas()->sgemm); });
  return {};
}

Result<void> load_blas() {
  if (const auto& opened = blas(); !opened)
    return fail(opened.error());
  return {};
}

} // namespace gpuactors::host
