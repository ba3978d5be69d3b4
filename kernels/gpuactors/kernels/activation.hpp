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

/// Computes the gradient of relu for one element: 0 where the output y of relu is 0, else dy. Where y is NaN, the
/// gradient passes.
template <class T>
struct ReluDerivative {
  GPUACTORS_FUNCTION static T of(T y, T dy) {
    return y <= T{0} ? T{0} : dy;
  }
};

/// Computes the gradient of relu: dx[i] = `ReluDerivative<T>::of`(y[i], dy[i]), where y is the output of relu.
template <class T>
struct ReluBackward {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* y, const T* dy, T* dx) const {
    dx[i] = ReluDerivative<T>::of(y[i], dy[i]);
  }
};

/// Computes y[i] = tanh(x[i]).
template <class T>
struct Tanh {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* x, T* y) const {
    y[i] = std::tanh(x[i]);
  }
};

/// Computes the gradient of tanh for one element: dy (1 - y^2), where y is the output of tanh.
template <class T>
struct TanhDerivative {
  GPUACTORS_FUNCTION static T of(T y, T dy) {
    return dy * (T{1} - y * y);
  }
};

/// Computes the gradient of tanh: dx[i] = `TanhDerivative<T>::of`(y[i], dy[i]), where y is the output of tanh.
template <class T>
struct TanhBackward {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* y, const T* dy, T* dx) const {
    dx[i] = TanhDerivative<T>::of(y[i], dy[i]);
  }
};

GPUACTORS_DECLARE_TYPED_KERNEL(relu, Relu);
GPUACTORS_DECLARE_TYPED_KERNEL(relu_backward, ReluBackward);
GPUACTORS_DECLARE_TYPED_KERNEL(tanh_forward, Tanh);
GPUACTORS_DECLARE_TYPED_KERNEL(tanh_backward, TanhBackward);

} // namespace gpuactors::kernels
