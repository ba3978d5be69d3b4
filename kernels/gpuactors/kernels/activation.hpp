// Activations and their derivatives. Index space: the number of elements.
#pragma once

#include <gpuactors/kernels/typed.hpp>

#include <cmath>

namespace gpuactors::kernels {

/// y[i] = max(x[i], 0); NaN stays NaN.
template <class T>
struct Relu {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* x, T* y) const {
    y[i] = x[i] < T{0} ? T{0} : x[i];
  }
};

/// dx[i] = 0 where the output y[i] of relu is 0, else dy[i]: where y[i] is NaN, the gradient passes.
template <class T>
struct ReluBackward {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* y, const T* dy, T* dx) const {
    dx[i] = y[i] <= T{0} ? T{0} : dy[i];
  }
};

/// y[i] = tanh(x[i])
template <class T>
struct Tanh {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* x, T* y) const {
    y[i] = std::tanh(x[i]);
  }
};

/// dx[i] = dy[i] (1 - y[i]^2), where y is the output of tanh
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
