// Activations and their derivatives, in f32 and f64. Index space: the number of elements; each array has one `T` per
// element.
#pragma once

#include <gpuactors/kernels/typed.hpp>

#include <cmath>

namespace gpuactors::kernels {

/// Computes y[i] = max(x[i], 0); NaN stays NaN.
template <class T>
struct Relu {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* x, T* y) const {
    y[i] = x[i] < T{0} ? T{0} : x[i];
  }
};

/// Computes the gradient of relu: dx[i] = 0 where the output y[i] of relu is 0, else dy[i]. Where y[i] is NaN, the
/// gradient passes: dx[i] = dy[i].
template <class T>
struct ReluBackward {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* y, const T* dy, T* dx) const {
    dx[i] = y[i] <= T{0} ? T{0} : dy[i];
  }
};

/// Computes y[i] = tanh(x[i]).
template <class T>
struct Tanh {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* x, T* y) const {
    y[i] = std::tanh(x[i]);
  }
};

/// Computes the gradient of tanh: dx[i] = dy[i] (1 - y[i]^2), where y is the output of tanh.
template <class T>
struct TanhBackward {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* y, const T* dy, T* dx) const {
    dx[i] = dy[i] * (T{1} - y[i] * y[i]);
  }
};

GPUACTORS_DECLARE_TYPED_KERNEL(relu, Relu);
GPUACTORS_DECLARE_TYPED_KERNEL(relu_backward, ReluBackward);
GPUACTORS_DECLARE_TYPED_KERNEL(tanh_forward, Tanh);
GPUACTORS_DECLARE_TYPED_KERNEL(tanh_backward, TanhBackward);

} // namespace gpuactors::kernels
