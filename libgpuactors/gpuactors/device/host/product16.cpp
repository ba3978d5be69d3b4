// Widens, multiplies and rounds block by block. Compiled like a kernel, because much of it is loops over elements.
#include <gpuactors/device/host/product16.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>

namespace gpuactors::host {

namespace {

// The three blocks of f32 have 2 MiB. Larger ones would widen the operands less often: with these, widening takes about
// a tenth of the time of the product.
constexpr std::int64_t most_rows = 512;
constexpr std::int64_t most_columns = 512;
constexpr std::int64_t most_depth = 256;

template <class T>
struct Widen {
  void operator()(std::uint64_t i, const T* x, float* y) const {
    y[i] = x[i];
  }
};

template <class T>
struct Scale {
  void operator()(std::uint64_t i, float alpha, const float* sums, T* c) const {
    c[i] = T{alpha * sums[i]};
  }
};

template <class T>
struct ScaleAndAdd {
  void operator()(std::uint64_t i, float alpha, const float* sums, float beta, T* c) const {
    c[i] = T{alpha * sums[i] + beta * c[i]};
  }
};

template <class T>
struct Shrink {
  void operator()(std::uint64_t i, float beta, T* c) const {
    c[i] = T{beta * c[i]};
  }
};

/// Runs a functor for the indices 0..n-1 with the widest vectors that the processor has.
template <class F, class... Args>
void run(std::int64_t n, Args... args) {
  const auto pack = pack_arguments(args...);
  gpuactors::detail::run_on_host<F>(0, static_cast<std::uint64_t>(n), &pack);
}

/// Copies a matrix of 16-bit elements to one of f32 without gaps.
template <class T>
void widen(const T* from, std::int64_t leading, std::int64_t rows, std::int64_t columns, float* to) {
  for (std::int64_t row = 0; row < rows; ++row)
    run<Widen<T>>(columns, from + row * leading, to + row * columns);
}

/// The f32 blocks of a tile's operands and of its sums.
class Blocks {
public:
  Blocks(const Gemm& product, const GemmTile& tile)
    : rows_(std::min(most_rows, tile.rows)), columns_(std::min(most_columns, tile.columns)),
      depth_(std::min(most_depth, product.k)), floats_(new (std::nothrow) float[count()]) {
    // nop
  }

  [[nodiscard]] std::size_t count() const noexcept {
    return static_cast<std::size_t>(rows_ * depth_ + depth_ * columns_ + rows_ * columns_);
  }
  [[nodiscard]] float* a() const noexcept {
    return floats_.get();
  }
  [[nodiscard]] float* b() const noexcept {
    return a() + rows_ * depth_;
  }
  [[nodiscard]] float* sums() const noexcept {
    return b() + depth_ * columns_;
  }

private:
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t depth_;
  std::unique_ptr<float[]> floats_; // uninitialized, and may be missing
};

/// Sums one part of C, at most a block, over all of k.
template <class T>
void sum_up(const Gemm& g, const GemmTile& part, const Blocks& blocks, MultiplyFloats multiply) {
  const auto* a = static_cast<const T*>(g.a) + (g.transpose_a ? part.row : part.row * g.lda);
  const auto* b = static_cast<const T*>(g.b) + (g.transpose_b ? part.column * g.ldb : part.column);
  for (std::int64_t at = 0; at < g.k; at += most_depth) {
    const auto depth = std::min(most_depth, g.k - at);
    // The blocks lie as the operands do, so that rows are read in order.
    if (g.transpose_a)
      widen(a + at * g.lda, g.lda, depth, part.rows, blocks.a());
    else
      widen(a + at, g.lda, part.rows, depth, blocks.a());
    if (g.transpose_b)
      widen(b + at, g.ldb, part.columns, depth, blocks.b());
    else
      widen(b + at * g.ldb, g.ldb, depth, part.columns, blocks.b());
    Gemm sums;
    sums.transpose_a = g.transpose_a;
    sums.transpose_b = g.transpose_b;
    sums.m = part.rows;
    sums.n = part.columns;
    sums.k = depth;
    sums.a = blocks.a();
    sums.lda = g.transpose_a ? part.rows : depth;
    sums.b = blocks.b();
    sums.ldb = g.transpose_b ? depth : part.columns;
    sums.beta = at == 0 ? 0.0 : 1.0;
    sums.c = blocks.sums();
    sums.ldc = part.columns;
    multiply(sums);
  }
}

template <class T>
void finish(const Gemm& g, const GemmTile& part, const float* sums) {
  const auto alpha = static_cast<float>(g.alpha);
  const auto beta = static_cast<float>(g.beta);
  for (std::int64_t row = 0; row < part.rows; ++row) {
    auto* c = static_cast<T*>(g.c) + (part.row + row) * g.ldc + part.column;
    const auto* from = sums + row * part.columns;
    if (beta == 0.0F) // C is not read: it may be uninitialized
      run<Scale<T>>(part.columns, alpha, from, c);
    else
      run<ScaleAndAdd<T>>(part.columns, alpha, from, beta, c);
  }
}

/// Computes a tile of a product whose alpha is 0: A and B are not read, so that what is no number there stays there.
template <class T>
void finish_without_sums(const Gemm& g, const GemmTile& tile) {
  const auto beta = static_cast<float>(g.beta);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    auto* c = static_cast<T*>(g.c) + (tile.row + row) * g.ldc + tile.column;
    if (beta == 0.0F)
      std::fill_n(c, tile.columns, T{0.0F});
    else
      run<Shrink<T>>(tile.columns, beta, c);
  }
}

template <class T>
Result<void> run_tile(const Gemm& g, const GemmTile& tile, MultiplyFloats multiply) {
  const bool is_wide = g.result_type() == DType::f32;
  if (static_cast<float>(g.alpha) == 0.0F) {
    if (is_wide)
      finish_without_sums<float>(g, tile);
    else
      finish_without_sums<T>(g, tile);
    return {};
  }
  const Blocks blocks{g, tile};
  if (blocks.a() == nullptr)
    return fail(Errc::out_of_memory, fmt::format("the machine has no {} B of memory left for a product of {}",
                                                 blocks.count() * sizeof(float), to_string(g.dtype)));
  for (std::int64_t row = 0; row < tile.rows; row += most_rows)
    for (std::int64_t column = 0; column < tile.columns; column += most_columns) {
      const GemmTile part{tile.row + row, tile.column + column, std::min(most_rows, tile.rows - row),
                          std::min(most_columns, tile.columns - column)};
      sum_up<T>(g, part, blocks, multiply);
      if (is_wide)
        finish<float>(g, part, blocks.sums());
      else
        finish<T>(g, part, blocks.sums());
    }
  return {};
}

} // namespace

Result<void> run_16_bit_tile(const Gemm& product, const GemmTile& tile, MultiplyFloats multiply) {
  return product.dtype == DType::f16 ? run_tile<Float16>(product, tile, multiply)
                                     : run_tile<BFloat16>(product, tile, multiply);
}

} // namespace gpuactors::host
