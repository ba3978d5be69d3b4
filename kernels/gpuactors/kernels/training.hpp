// Loss and update steps of training, in f32 and f64. Index space: the number of elements; each array has one `T` per
// element.
#pragma once

#include <gpuactors/kernels/typed.hpp>

#include <cmath>

namespace gpuactors::kernels {

/// Computes errors[i] = (y[i] - target[i])^2 / n: the sum of all errors is the mean squared error over n elements.
template <class T>
struct SquaredError {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t n, const T* y, const T* target, T* errors) const {
    const T difference = y[i] - target[i];
    errors[i] = difference * difference / static_cast<T>(n);
  }
};

/// Computes gradient[i] = 2 (y[i] - target[i]) / n, the derivative of the mean squared error over n elements.
template <class T>
struct MseGradient {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t n, const T* y, const T* target, T* gradient) const {
    gradient[i] = T{2} * (y[i] - target[i]) / static_cast<T>(n);
  }
};

/// Computes weight[i] -= rate gradient[i].
template <class T>
struct SgdStep {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, T rate, const T* gradient, T* weight) const {
    weight[i] -= rate * gradient[i];
  }
};

/// Holds the parameters of a step of Adam besides the arrays: a plain value that kernels take as an argument.
template <class T>
struct AdamParameters {
  T rate = T(0.001);
  T beta1 = T(0.9);
  T beta2 = T(0.999);
  T epsilon = T(1e-8);
  /// 1 - beta1^t and 1 - beta2^t at step t, which starts at 1.
  T correction1 = T{1};
  T correction2 = T{1};

  /// Updates one weight; `first` and `second` are its running moments.
  GPUACTORS_FUNCTION void step(T gradient, T& first, T& second, T& weight) const {
    first = beta1 * first + (T{1} - beta1) * gradient;
    second = beta2 * second + (T{1} - beta2) * gradient * gradient;
    weight -= rate * (first / correction1) / (std::sqrt(second / correction2) + epsilon);
  }

  /// Returns these parameters with the corrections of step `t` (at least 1). They follow from the betas as `T` rounds
  /// them, by which the moments decay: of gradients that are all alike, the corrected mean is the gradient.
  [[nodiscard]] AdamParameters at_step(std::uint64_t t) const {
    auto parameters = *this;
    parameters.correction1 = T(1 - std::pow(static_cast<double>(beta1), static_cast<double>(t)));
    parameters.correction2 = T(1 - std::pow(static_cast<double>(beta2), static_cast<double>(t)));
    return parameters;
  }
};

/// Takes one step of Adam; `first` and `second` are the running moments, zero before step 1.
template <class T>
struct AdamStep {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, AdamParameters<T> p, const T* gradient, T* first, T* second,
                                     T* weight) const {
    p.step(gradient[i], first[i], second[i], weight[i]);
  }
};

GPUACTORS_DECLARE_TYPED_KERNEL(squared_error, SquaredError);
GPUACTORS_DECLARE_TYPED_KERNEL(mse_gradient, MseGradient);
GPUACTORS_DECLARE_TYPED_KERNEL(sgd_step, SgdStep);
GPUACTORS_DECLARE_TYPED_KERNEL(adam_step, AdamStep);

} // namespace gpuactors::kernels
