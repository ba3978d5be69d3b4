// Float16 and BFloat16: floating-point numbers of 16 bits, for tensors, kernels on host devices and CUDA device code.
// This header compiles under the C++ compiler and nvcc, and needs no CUDA headers.
//
// They store values. Arithmetic is in float, to which both convert without loss; the way back rounds and is explicit:
//
//   y[i] = Float16{a * x[i] + y[i]};
#pragma once

#include <gpuactors/device/kernel.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace gpuactors {

namespace detail {

constexpr std::uint32_t float_sign = 0x8000'0000U;
constexpr std::uint32_t float_infinity = 0x7F80'0000U;

[[nodiscard]] GPUACTORS_FUNCTION constexpr std::uint32_t bits_of(float value) noexcept {
  return __builtin_bit_cast(std::uint32_t, value);
}

[[nodiscard]] GPUACTORS_FUNCTION constexpr float float_of(std::uint32_t bits) noexcept {
  return __builtin_bit_cast(float, bits);
}

[[nodiscard]] GPUACTORS_FUNCTION constexpr std::uint32_t all_ones_if(bool condition) noexcept {
  return 0U - static_cast<std::uint32_t>(condition);
}

/// Rounds to the float whose further rounding to 16 bits gives what one rounding of `value` would give: an inexact
/// result is the one of the two neighbours that has an odd last bit, which neither is a value of 16 bits nor lies in
/// the middle between two.
[[nodiscard]] GPUACTORS_FUNCTION constexpr float round_to_odd(double value) noexcept {
  const auto near = static_cast<float>(value);
  const auto back = static_cast<double>(near);
  if (back == value || value != value)
    return near;
  const bool is_beyond = value < 0 ? back < value : back > value;
  return float_of((bits_of(near) - (is_beyond ? 1U : 0U)) | 1U);
}

/// Overload for a whole number. Bits beyond the 53 of a double are first replaced by one odd bit.
[[nodiscard]] GPUACTORS_FUNCTION constexpr float round_to_odd(std::uint64_t value) noexcept {
  constexpr std::uint64_t dropped = 0x7FF;
  if (value >> 53 != 0)
    value = (value & ~dropped) | ((value & dropped) != 0 ? dropped + 1 : 0);
  return round_to_odd(static_cast<double>(value));
}

[[nodiscard]] GPUACTORS_FUNCTION constexpr float round_to_odd(std::int64_t value) noexcept {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? -round_to_odd(0 - bits) : round_to_odd(bits);
}

template <class T>
concept WholeNumber = std::is_integral_v<T> && sizeof(T) <= sizeof(std::uint64_t);

/// A type that has all values of a whole number's type, and that `round_to_odd` takes.
template <WholeNumber T>
using Widest = std::conditional_t<(sizeof(T) < sizeof(std::uint64_t)), double,
                                  std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

/// IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction. Values up to 65504, with 3 decimal digits.
struct Binary16 {
  static constexpr int fraction_bits = 10;
  static constexpr int exponent_bits = 5;

  // One sum of floats for all cases and no branches, so that compilers can use vectors.

  [[nodiscard]] GPUACTORS_FUNCTION static constexpr float to_float(std::uint16_t half) noexcept {
    constexpr std::uint32_t exponent = 0x1FU << 23;
    const std::uint32_t magnitude = (half & 0x7FFFU) << 13;
    // Of zero and subnormal numbers, subtracts the leading 1 that they do not have.
    const auto without_1 = all_ones_if((magnitude & exponent) == 0);
    const auto with_1 = magnitude + ((127U - 15U) << 23) + (without_1 & (1U << 23));
    const auto finite = bits_of(float_of(with_1) - float_of(without_1 & ((127U - 14U) << 23)));
    const auto infinity = all_ones_if((magnitude & exponent) == exponent) & float_infinity;
    return float_of(finite | infinity | (half & 0x8000U) << 16);
  }

  [[nodiscard]] GPUACTORS_FUNCTION static constexpr std::uint16_t from_float(float value) noexcept {
    constexpr std::uint32_t least_infinite = (127U + 16U) << 23;
    constexpr std::uint32_t least_normal = (127U - 14U) << 23;
    const auto bits = bits_of(value);
    const auto magnitude = bits & ~float_sign;
    const auto too_large = all_ones_if(magnitude >= least_infinite);
    const auto finite = (magnitude & ~too_large) | (least_infinite & too_large);
    const auto normal = finite < least_normal ? least_normal : finite;
    // A power of two so large that a float of its size ends where the result ends: the addition rounds there. What it
    // leaves above the power is the fraction with its leading 1, which goes into the exponent, like a carry.
    const auto power = (normal & float_infinity) + (13U << 23);
    const auto fraction = bits_of(float_of(finite) + float_of(power)) - power;
    const auto exponent = ((normal >> 23) - (127U - 14U)) << 10;
    // A NaN becomes quiet and keeps the upper bits of its payload.
    const auto nan = all_ones_if(magnitude > float_infinity) & (0x200U | ((magnitude >> 13) & 0x3FFU));
    return static_cast<std::uint16_t>((exponent + fraction) | nan | (bits & float_sign) >> 16);
  }
};

/// The upper half of a float: 1 bit of sign, 8 of exponent, 7 of fraction. Values as large as a float's, with 2 decimal
/// digits.
struct Brain16 {
  static constexpr int fraction_bits = 7;
  static constexpr int exponent_bits = 8;

  [[nodiscard]] GPUACTORS_FUNCTION static constexpr float to_float(std::uint16_t half) noexcept {
    return float_of(static_cast<std::uint32_t>(half) << 16);
  }

  [[nodiscard]] GPUACTORS_FUNCTION static constexpr std::uint16_t from_float(float value) noexcept {
    const auto bits = bits_of(value);
    const auto number = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const auto nan = (bits >> 16) | 0x40U;
    return static_cast<std::uint16_t>((bits & ~float_sign) > float_infinity ? nan : number);
  }
};

} // namespace detail

/// A floating-point number of 16 bits, with infinities, NaN, subnormal numbers and a signed zero. A plain value of 2
/// bytes, with the layout of CUDA's `__half` or `__nv_bfloat16`; uninitialized like a float if it is given no value.
///
/// Conversions to this type round once, to nearest, ties to even; values that are too large become infinity, and a NaN
/// becomes quiet. They need the default rounding mode, and also work where subnormal floats are flushed to zero (but
/// for `BFloat16`, whose subnormal numbers are such floats). Any thread, on host and device.
template <class Format>
class SmallFloat {
public:
  SmallFloat() = default;

  GPUACTORS_FUNCTION constexpr explicit SmallFloat(float value) noexcept : bits_(Format::from_float(value)) {
    // nop
  }

  GPUACTORS_FUNCTION constexpr explicit SmallFloat(double value) noexcept : SmallFloat(detail::round_to_odd(value)) {
    // nop
  }

  template <detail::WholeNumber Whole>
  GPUACTORS_FUNCTION constexpr explicit SmallFloat(Whole value) noexcept
    : SmallFloat(detail::round_to_odd(static_cast<detail::Widest<Whole>>(value))) {
    // nop
  }

  /// Returns the number that these bits mean.
  [[nodiscard]] GPUACTORS_FUNCTION static constexpr SmallFloat from_bits(std::uint16_t bits) noexcept {
    SmallFloat result{0.0F};
    result.bits_ = bits;
    return result;
  }

  [[nodiscard]] GPUACTORS_FUNCTION constexpr std::uint16_t bits() const noexcept {
    return bits_;
  }

  // Lossless; makes expressions and comparisons those of floats.
  GPUACTORS_FUNCTION constexpr operator float() const noexcept { // NOLINT(*-explicit-*)
    return Format::to_float(bits_);
  }

  GPUACTORS_FUNCTION constexpr SmallFloat& operator+=(float value) noexcept {
    return *this = SmallFloat{*this + value};
  }

  GPUACTORS_FUNCTION constexpr SmallFloat& operator-=(float value) noexcept {
    return *this = SmallFloat{*this - value};
  }

  GPUACTORS_FUNCTION constexpr SmallFloat& operator*=(float value) noexcept {
    return *this = SmallFloat{*this * value};
  }

  GPUACTORS_FUNCTION constexpr SmallFloat& operator/=(float value) noexcept {
    return *this = SmallFloat{*this / value};
  }

private:
  std::uint16_t bits_;
};

/// IEEE 754 binary16, "half precision": up to 65504, 11 significant bits. `DType::f16`.
using Float16 = SmallFloat<detail::Binary16>;

/// "Brain floating point": the range of a float with 8 significant bits. `DType::bf16`.
using BFloat16 = SmallFloat<detail::Brain16>;

} // namespace gpuactors

/// The limits of both types, by the same names as for `float`.
template <class Format>
class std::numeric_limits<gpuactors::SmallFloat<Format>> {
  using Number = gpuactors::SmallFloat<Format>;

  static constexpr std::uint16_t least_normal = 1U << Format::fraction_bits;
  static constexpr std::uint16_t all_exponents = ((1U << Format::exponent_bits) - 1U) << Format::fraction_bits;

public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool is_iec559 = true;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool has_infinity = true;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = true;
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false;
  static constexpr bool traps = false;
  static constexpr bool tinyness_before = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2;
  static constexpr int digits = Format::fraction_bits + 1;
  static constexpr int digits10 = Format::fraction_bits * 30103 / 100000;
  static constexpr int max_digits10 = 2 + digits * 30103 / 100000;
  static constexpr int max_exponent = 1 << (Format::exponent_bits - 1);
  static constexpr int min_exponent = 3 - max_exponent;
  // Rounded towards 0: the powers of ten between the least normal number and the largest.
  static constexpr int max_exponent10 = max_exponent * 30103 / 100000;
  static constexpr int min_exponent10 = (min_exponent - 1) * 30103 / 100000;

  static constexpr Number min() noexcept {
    return Number::from_bits(least_normal);
  }
  static constexpr Number max() noexcept {
    return Number::from_bits(all_exponents - 1U);
  }
  static constexpr Number lowest() noexcept {
    return Number{-max()};
  }
  static constexpr Number epsilon() noexcept {
    return Number{1.0F / static_cast<float>(1U << Format::fraction_bits)};
  }
  static constexpr Number round_error() noexcept {
    return Number{0.5F};
  }
  static constexpr Number infinity() noexcept {
    return Number::from_bits(all_exponents);
  }
  static constexpr Number quiet_NaN() noexcept {
    return Number::from_bits(all_exponents | (least_normal >> 1));
  }
  static constexpr Number signaling_NaN() noexcept {
    return Number::from_bits(all_exponents | 1U);
  }
  static constexpr Number denorm_min() noexcept {
    return Number::from_bits(1U);
  }
};
