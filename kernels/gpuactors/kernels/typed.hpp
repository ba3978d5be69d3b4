// One name for the versions of a kernel for f32 and f64, or for all floating-point types.
#pragma once

#include <gpuactors/device/float16.hpp>
#include <gpuactors/device/kernel.hpp>

#include <type_traits>

namespace gpuactors::kernels {

/// Selects the type in which kernels compute for elements of `T`: float for 16-bit types, with results rounded once at
/// the end; `T` itself for others.
template <class T>
using ComputeType = std::conditional_t<sizeof(T) == 2, float, T>;

} // namespace gpuactors::kernels

// `Functor` is the name of a template: it cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)

/// Declares `name_f32` and `name_f64` for the functor template `Functor`, and `name<T>()`, which returns the kernel for
/// `T`, float or double.
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

/// Declares `name_f32`, `name_f64`, `name_f16` and `name_bf16` for the functor template `Functor`, and `name<T>()`,
/// which returns the kernel for `T`: float, double, Float16 or BFloat16.
#define GPUACTORS_DECLARE_FLOAT_KERNEL(name, Functor)                                                                  \
  GPUACTORS_DECLARE_KERNEL(name##_f32, Functor<float>);                                                                \
  GPUACTORS_DECLARE_KERNEL(name##_f64, Functor<double>);                                                               \
  GPUACTORS_DECLARE_KERNEL(name##_f16, Functor<::gpuactors::Float16>);                                                 \
  GPUACTORS_DECLARE_KERNEL(name##_bf16, Functor<::gpuactors::BFloat16>);                                               \
  template <class T>                                                                                                   \
  [[nodiscard]] const ::gpuactors::KernelOf<Functor<T>>& name() {                                                      \
    if constexpr (std::is_same_v<T, float>)                                                                            \
      return name##_f32;                                                                                               \
    else if constexpr (std::is_same_v<T, double>)                                                                      \
      return name##_f64;                                                                                               \
    else if constexpr (std::is_same_v<T, ::gpuactors::Float16>)                                                        \
      return name##_f16;                                                                                               \
    else {                                                                                                             \
      static_assert(std::is_same_v<T, ::gpuactors::BFloat16>, "this kernel is in f32, f64, f16 and bf16");             \
      return name##_bf16;                                                                                              \
    }                                                                                                                  \
  }                                                                                                                    \
  static_assert(true)

/// Defines `name_f32`, `name_f64`, `name_f16` and `name_bf16`, in a .cu file.
#define GPUACTORS_DEFINE_FLOAT_KERNEL(name, Functor)                                                                   \
  GPUACTORS_DEFINE_TYPED_KERNEL(name, Functor)                                                                         \
  GPUACTORS_DEFINE_KERNEL(name##_f16, Functor<::gpuactors::Float16>)                                                   \
  GPUACTORS_DEFINE_KERNEL(name##_bf16, Functor<::gpuactors::BFloat16>)

// NOLINTEND(bugprone-macro-parentheses)
