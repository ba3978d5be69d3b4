// Layers of a network with bias and activation in one pass over a row-major matrix (rows x columns).
//
// Each index works on a tile of neighbouring columns, so one kernel suits both kinds of device: tiles of one column
// give a GPU coalesced accesses, long tiles give a CPU loops that it can vectorize.
//
// x, y and dy are matrices (rows x columns), bias and sums have one element per column; all of them have elements of
// type `T`, f32 or f64. The arrays of one launch must not overlap.
#pragma once

#include <gpuactors/kernels/activation.hpp>

#include <cmath>
#include <cstdint>

namespace gpuactors::kernels {

/// Describes how the columns of a matrix are divided into tiles: a plain value that kernels take as an argument.
struct Tiling {
  std::uint64_t columns;
  std::uint64_t tile;
  /// The number of tiles in a row.
  std::uint64_t tiles;

  /// Divides `columns` (at least 1) into tiles of `tile` (at least 1); the last one may be shorter.
  static Tiling of(std::uint64_t columns, std::uint64_t tile) {
    return {columns, tile, (columns + tile - 1) / tile};
  }

  /// Returns the first column of tile `i` of a row.
  [[nodiscard]] GPUACTORS_FUNCTION std::uint64_t begin(std::uint64_t i) const {
    return i * tile;
  }

  /// Returns the column after the last column of tile `i` of a row.
  [[nodiscard]] GPUACTORS_FUNCTION std::uint64_t end(std::uint64_t i) const {
    return (i + 1) * tile < columns ? (i + 1) * tile : columns;
  }
};

/// Copies row order[r] of x to row r of y (rows x columns), for each row r of y. x has the columns of y and any number
/// of rows; order (int32) has one element per row of y, each a row of x, which is not checked. Index space: rows of y *
/// tiles.
template <class T>
struct GatherRows {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, Tiling t, const std::int32_t* order, const T* x, T* y) const {
    const auto row = i / t.tiles;
    const auto part = i % t.tiles;
    const T* from = x + static_cast<std::uint64_t>(order[row]) * t.columns;
    T* to = y + row * t.columns;
    for (auto c = t.begin(part); c < t.end(part); ++c)
      to[c] = from[c];
  }
};

/// Adds bias to every row of x. Index space: rows * tiles.
template <class T>
struct BiasRows {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, Tiling t, const T* bias, T* x) const {
    const auto part = i % t.tiles;
    const T* __restrict__ add = bias;
    T* __restrict__ row = x + i / t.tiles * t.columns;
    const auto end = t.end(part);
    for (auto c = t.begin(part); c < end; ++c)
      row[c] += add[c];
  }
};

/// Computes x = max(x + bias, 0) in every row; NaN stays NaN. Index space: rows * tiles.
template <class T>
struct BiasRelu {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, Tiling t, const T* bias, T* x) const {
    const auto part = i % t.tiles;
    const T* __restrict__ add = bias;
    T* __restrict__ row = x + i / t.tiles * t.columns;
    const auto end = t.end(part);
    for (auto c = t.begin(part); c < end; ++c) {
      const T value = row[c] + add[c];
      row[c] = value < T{0} ? T{0} : value;
    }
  }
};

/// Computes x = tanh(x + bias) in every row. Index space: rows * tiles.
template <class T>
struct BiasTanh {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, Tiling t, const T* bias, T* x) const {
    const auto part = i % t.tiles;
    T* row = x + i / t.tiles * t.columns;
    for (auto c = t.begin(part); c < t.end(part); ++c)
      row[c] = std::tanh(row[c] + bias[c]);
  }
};

/// Computes sums[c] = sum of column c of dy, top to bottom: the gradient of a bias. Index space: tiles.
template <class T>
struct BiasGradient {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t rows, Tiling t, const T* dy, T* sums) const {
    T* __restrict__ sum = sums;
    const auto begin = t.begin(i);
    const auto end = t.end(i);
    for (auto c = begin; c < end; ++c)
      sum[c] = T{0};
    for (std::uint64_t r = 0; r < rows; ++r) {
      const T* __restrict__ row = dy + r * t.columns;
      for (auto c = begin; c < end; ++c)
        sum[c] += row[c];
    }
  }
};

/// Multiplies dy by the derivative of the activation with output y, and computes sums[c] = sum of column c of the new
/// dy, top to bottom: the gradient of the bias. `Derivative::of(y, dy)` computes one element of the new dy. Index
/// space: tiles.
template <class T, class Derivative>
struct BiasBackward {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t rows, Tiling t, const T* y, T* dy, T* sums) const {
    T* __restrict__ sum = sums;
    const auto begin = t.begin(i);
    const auto end = t.end(i);
    for (auto c = begin; c < end; ++c)
      sum[c] = T{0};
    for (std::uint64_t r = 0; r < rows; ++r) {
      const T* __restrict__ out = y + r * t.columns;
      T* __restrict__ row = dy + r * t.columns;
      for (auto c = begin; c < end; ++c) {
        const T gradient = Derivative::of(out[c], row[c]);
        row[c] = gradient;
        sum[c] += gradient;
      }
    }
  }
};

template <class T>
using BiasReluBackward = BiasBackward<T, ReluDerivative<T>>;
template <class T>
using BiasTanhBackward = BiasBackward<T, TanhDerivative<T>>;

GPUACTORS_DECLARE_TYPED_KERNEL(gather_rows, GatherRows);
GPUACTORS_DECLARE_TYPED_KERNEL(bias_rows, BiasRows);
GPUACTORS_DECLARE_TYPED_KERNEL(bias_relu, BiasRelu);
GPUACTORS_DECLARE_TYPED_KERNEL(bias_tanh, BiasTanh);
GPUACTORS_DECLARE_TYPED_KERNEL(bias_gradient, BiasGradient);
GPUACTORS_DECLARE_TYPED_KERNEL(bias_relu_backward, BiasReluBackward);
GPUACTORS_DECLARE_TYPED_KERNEL(bias_tanh_backward, BiasTanhBackward);

} // namespace gpuactors::kernels
