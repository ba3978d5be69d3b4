// Losses of a batch, and the gradients from which backpropagation starts. Index space: rows of the batch.
//
// y (rows x columns) has the outputs of the last layer without the bias: the kernels add bias (columns), and replace y
// with the gradient. losses has one element per row of the batch and is not scaled by `scale`. y, bias and losses have
// elements of type `T`, f32 or f64. `order` (one int32 per row of the batch) lists the rows of the whole data set that
// form the batch, and is not checked against the rows that there are; null means the first rows.
#pragma once

#include <gpuactors/kernels/typed.hpp>

#include <cmath>
#include <cstdint>

namespace gpuactors::kernels {

/// Computes softmax and cross-entropy: losses[row] = -log softmax(y + bias)[label]; y = (softmax - one-hot label) *
/// scale. For the mean, the scale is 1 / rows of the batch. labels has one int32 per row of the data set; a label
/// outside 0..columns-1 gives a loss of NaN, and a gradient of NaN in all columns of that row. columns is at least 1.
template <class T>
struct SoftmaxCrossEntropy {
  GPUACTORS_FUNCTION void operator()(std::uint64_t row, std::uint64_t columns, T scale, const std::int32_t* order,
                                     const std::int32_t* labels, const T* bias, T* y, T* losses) const {
    T* out = y + row * columns;
    const auto label = labels[order != nullptr ? static_cast<std::uint64_t>(order[row]) : row];
    T most = out[0] + bias[0];
    for (std::uint64_t c = 0; c < columns; ++c) {
      out[c] += bias[c];
      most = out[c] > most ? out[c] : most;
    }
    const bool known = label >= 0 && static_cast<std::uint64_t>(label) < columns;
    const T wanted = known ? out[label] - most : T(NAN);
    T sum{0};
    for (std::uint64_t c = 0; c < columns; ++c) {
      out[c] = std::exp(out[c] - most);
      sum += out[c];
    }
    const T factor = known ? scale / sum : T(NAN);
    for (std::uint64_t c = 0; c < columns; ++c)
      out[c] *= factor;
    if (known)
      out[label] -= scale;
    losses[row] = std::log(sum) - wanted;
  }
};

/// Computes the mean squared error: losses[row] = mean of (y + bias - target)^2 over the columns; y = 2 (y + bias -
/// target) * scale. For the mean, the scale is 1 / (rows of the batch * columns). targets (rows of the data set x
/// columns) has elements of type `T`.
template <class T>
struct SquaredErrorRows {
  GPUACTORS_FUNCTION void operator()(std::uint64_t row, std::uint64_t columns, T scale, const std::int32_t* order,
                                     const T* targets, const T* bias, T* y, T* losses) const {
    T* out = y + row * columns;
    const T* target = targets + (order != nullptr ? static_cast<std::uint64_t>(order[row]) : row) * columns;
    T sum{0};
    for (std::uint64_t c = 0; c < columns; ++c) {
      const T difference = out[c] + bias[c] - target[c];
      sum += difference * difference;
      out[c] = T{2} * difference * scale;
    }
    losses[row] = sum / static_cast<T>(columns);
  }
};

GPUACTORS_DECLARE_TYPED_KERNEL(softmax_cross_entropy, SoftmaxCrossEntropy);
GPUACTORS_DECLARE_TYPED_KERNEL(squared_error_rows, SquaredErrorRows);

} // namespace gpuactors::kernels
