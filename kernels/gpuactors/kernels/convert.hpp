// Conversions between f32 and the 16-bit types, for programs that keep values in f32 and compute with 16-bit values.
// Index space: the number of elements; each array has one value per element.
#pragma once

#include <gpuactors/device/float16.hpp>
#include <gpuactors/device/kernel.hpp>

#include <type_traits>

namespace gpuactors::kernels {

/// Converts x[i] to y[i], rounded to nearest with ties to even where `To` is shorter than `From`.
template <class From, class To>
struct Convert {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const From* x, To* y) const {
    y[i] = static_cast<To>(x[i]);
  }
};

using ConvertF32ToF16 = Convert<float, Float16>;
using ConvertF16ToF32 = Convert<Float16, float>;
using ConvertF32ToBf16 = Convert<float, BFloat16>;
using ConvertBf16ToF32 = Convert<BFloat16, float>;

GPUACTORS_DECLARE_KERNEL(convert_f32_to_f16, ConvertF32ToF16);
GPUACTORS_DECLARE_KERNEL(convert_f16_to_f32, ConvertF16ToF32);
GPUACTORS_DECLARE_KERNEL(convert_f32_to_bf16, ConvertF32ToBf16);
GPUACTORS_DECLARE_KERNEL(convert_bf16_to_f32, ConvertBf16ToF32);

/// Returns the kernel that converts from `From` to `To`: one of the two types is float, the other Float16 or BFloat16.
/// Other types do not compile.
template <class From, class To>
[[nodiscard]] const KernelOf<Convert<From, To>>& convert() {
  if constexpr (std::is_same_v<Convert<From, To>, ConvertF32ToF16>)
    return convert_f32_to_f16;
  else if constexpr (std::is_same_v<Convert<From, To>, ConvertF16ToF32>)
    return convert_f16_to_f32;
  else if constexpr (std::is_same_v<Convert<From, To>, ConvertF32ToBf16>)
    return convert_f32_to_bf16;
  else {
    static_assert(std::is_same_v<Convert<From, To>, ConvertBf16ToF32>, "kernels convert f32 to f16 or bf16, and back");
    return convert_bf16_to_f32;
  }
}

} // namespace gpuactors::kernels
