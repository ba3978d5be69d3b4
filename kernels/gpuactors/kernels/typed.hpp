// One name for the f32 and f64 versions of a kernel.
#pragma once

#include <gpuactors/device/kernel.hpp>

#include <type_traits>

// `Functor` is the name of a template: it cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)

/// Declares `name_f32` and `name_f64` for the functor template `Functor`, and `name<T>()`, the kernel for `T`.
#define GPUACTORS_DECLARE_TYPED_KERNEL(name, Functor)                                                                  \
  GPUACTORS_DECLARE_KERNEL(name##_f32, Functor<float>);                                                                \
  GPUACTORS_DECLARE_KERNEL(name##_f64, Functor<double>);                                                               \
  template <class T>                                                                                                   \
  [[nodiscard]] const ::gpuactors::KernelOf<Functor<T>>& name() {                                                      \
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "kernels are in f32 and f64");                \
    if constexpr (std::is_same_v<T, float>)                                                                            \
      return name##_f32;                                                                                               \
    else                                                                                                               \
      return name##_f64;                                                                                               \
  }                                                                                                                    \
  static_assert(true)

/// Defines `name_f32` and `name_f64`, in a .cu file.
#define GPUACTORS_DEFINE_TYPED_KERNEL(name, Functor)                                                                   \
  GPUACTORS_DEFINE_KERNEL(name##_f32, Functor<float>)                                                                  \
  GPUACTORS_DEFINE_KERNEL(name##_f64, Functor<double>)

// NOLINTEND(bugprone-macro-parentheses)
