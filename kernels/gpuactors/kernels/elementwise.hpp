// One result per element, in f32, f64, f16 and bf16. Index space: the number of elements; each array has one `T` per
// element.
#pragma once

#include <gpuactors/kernels/typed.hpp>

namespace gpuactors::kernels {

/// Sets x[i] = value.
template <class T>
struct FillValue {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, T value, T* x) const {
    x[i] = value;
  }
};

/// Computes y[i] = x[i]^2 + 2 x[i] + 1.
template <class T>
struct Polynomial {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* x, T* y) const {
    const ComputeType<T> at = x[i];
    y[i] = static_cast<T>(at * at + 2 * at + 1);
  }
};

/// Computes y[i] = a x[i] + y[i]; `a` is a `ComputeType<T>`.
template <class T>
struct Axpy {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, ComputeType<T> a, const T* x, T* y) const {
    y[i] += a * x[i];
  }
};

/// Computes x[i] = a x[i]; `a` is a `ComputeType<T>`.
template <class T>
struct Scale {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, ComputeType<T> a, T* x) const {
    x[i] *= a;
  }
};

/// Computes z[i] = x[i] + y[i].
template <class T>
struct Add {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const T* x, const T* y, T* z) const {
    z[i] = static_cast<T>(x[i] + y[i]);
  }
};

GPUACTORS_DECLARE_FLOAT_KERNEL(fill_value, FillValue);
GPUACTORS_DECLARE_FLOAT_KERNEL(polynomial, Polynomial);
GPUACTORS_DECLARE_FLOAT_KERNEL(axpy, Axpy);
GPUACTORS_DECLARE_FLOAT_KERNEL(scale, Scale);
GPUACTORS_DECLARE_FLOAT_KERNEL(add, Add);

} // namespace gpuactors::kernels
