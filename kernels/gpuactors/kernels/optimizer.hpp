// Update steps over all parameters of a network at once, in chunks of elements: long chunks for a CPU with vectorized
// loops, chunks of one for a GPU. Index space: ceil(n / chunk). Each array has `n` elements of type `T`, f32 or f64;
// the arrays of one launch must not overlap.
#pragma once

#include <gpuactors/kernels/training.hpp>

namespace gpuactors::kernels {

/// Holds the parameters of a step of SGD besides the arrays: a plain value that kernels take as an argument.
template <class T>
struct SgdParameters {
  T rate = T(0.01);
  T momentum = T{0};
  T weight_decay = T{0};
};

/// Computes weight -= rate (gradient + decay weight). Ignores `SgdParameters::momentum`.
template <class T>
struct SgdUpdate {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t n, std::uint64_t chunk, SgdParameters<T> p,
                                     const T* gradient, T* weight) const {
    const T* __restrict__ g = gradient;
    T* __restrict__ w = weight;
    const auto end = (i + 1) * chunk < n ? (i + 1) * chunk : n;
    for (auto at = i * chunk; at < end; ++at)
      w[at] -= p.rate * (g[at] + p.weight_decay * w[at]);
  }
};

/// Computes velocity = momentum velocity + gradient + decay weight; weight -= rate velocity. The velocity starts at
/// zero.
template <class T>
struct MomentumUpdate {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t n, std::uint64_t chunk, SgdParameters<T> p,
                                     const T* gradient, T* velocity, T* weight) const {
    const T* __restrict__ g = gradient;
    T* __restrict__ v = velocity;
    T* __restrict__ w = weight;
    const auto end = (i + 1) * chunk < n ? (i + 1) * chunk : n;
    for (auto at = i * chunk; at < end; ++at) {
      const T now = p.momentum * v[at] + (g[at] + p.weight_decay * w[at]);
      v[at] = now;
      w[at] -= p.rate * now;
    }
  }
};

/// Takes one step of Adam with gradient + decay weight as the gradient; `first` and `second` are the running moments,
/// zero before step 1.
template <class T>
struct AdamUpdate {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t n, std::uint64_t chunk, AdamParameters<T> p,
                                     T weight_decay, const T* gradient, T* first, T* second, T* weight) const {
    const auto end = (i + 1) * chunk < n ? (i + 1) * chunk : n;
    for (auto at = i * chunk; at < end; ++at)
      p.step(gradient[at] + weight_decay * weight[at], first[at], second[at], weight[at]);
  }
};

GPUACTORS_DECLARE_TYPED_KERNEL(sgd_update, SgdUpdate);
GPUACTORS_DECLARE_TYPED_KERNEL(momentum_update, MomentumUpdate);
GPUACTORS_DECLARE_TYPED_KERNEL(adam_update, AdamUpdate);

} // namespace gpuactors::kernels
