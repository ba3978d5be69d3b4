// Operations on row-major matrices other than the product. All arrays have elements of type `T`, f32 or f64.
#pragma once

#include <gpuactors/kernels/typed.hpp>

namespace gpuactors::kernels {

/// Computes y (columns x rows) = transpose of x (rows x columns). Index space: rows * columns.
template <class T>
struct Transpose {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t rows, std::uint64_t columns, const T* x,
                                     T* y) const {
    y[i] = x[(i % rows) * columns + i / rows];
  }
};

/// Computes sums[i] = sum of column i of x (rows x columns), top to bottom: the gradient of a bias. sums has one
/// element per column. Index space: columns.
template <class T>
struct ColumnSums {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t rows, std::uint64_t columns, const T* x,
                                     T* sums) const {
    T sum{0};
    for (std::uint64_t row = 0; row < rows; ++row)
      sum += x[row * columns + i];
    sums[i] = sum;
  }
};

/// Adds bias (columns) to every row of x (rows x columns). Index space: rows * columns.
template <class T>
struct AddToRows {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t columns, const T* bias, T* x) const {
    x[i] += bias[i % columns];
  }
};

/// Computes sums[i] = sum of the `chunk` elements of x (`n` elements) from i * chunk on; the last chunk may be shorter.
/// Repeated launches over sums add up all elements, always in the same order. Index space: ceil(n / chunk), the number
/// of elements of sums.
template <class T>
struct SumChunks {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t n, std::uint64_t chunk, const T* x, T* sums) const {
    const auto end = (i + 1) * chunk < n ? (i + 1) * chunk : n;
    T sum{0};
    for (auto at = i * chunk; at < end; ++at)
      sum += x[at];
    sums[i] = sum;
  }
};

GPUACTORS_DECLARE_TYPED_KERNEL(transpose, Transpose);
GPUACTORS_DECLARE_TYPED_KERNEL(column_sums, ColumnSums);
GPUACTORS_DECLARE_TYPED_KERNEL(add_to_rows, AddToRows);
GPUACTORS_DECLARE_TYPED_KERNEL(sum_chunks, SumChunks);

} // namespace gpuactors::kernels
