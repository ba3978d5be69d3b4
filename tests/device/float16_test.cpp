// Float16 and BFloat16 by themselves: every pattern of bits, and every place where rounding decides.
#include <gpuactors/device/types.hpp>

#include <support/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

using namespace gpuactors;

namespace {

template <class T>
struct Layout;
template <>
struct Layout<Float16> {
  static constexpr int fraction_bits = 10;
  static constexpr int bias = 15;
};
template <>
struct Layout<BFloat16> {
  static constexpr int fraction_bits = 7;
  static constexpr int bias = 127;
};

constexpr unsigned patterns = 65536;

template <class T>
T pattern(unsigned bits) {
  return T::from_bits(static_cast<std::uint16_t>(bits));
}

/// The number of a pattern, by the definition of the formats.
template <class T>
double value_of(unsigned bits) {
  using L = Layout<T>;
  const auto fraction = bits & ((1U << L::fraction_bits) - 1);
  const auto exponent = static_cast<int>((bits & 0x7FFFU) >> L::fraction_bits);
  const auto sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 2 * L::bias + 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  const auto leading = exponent == 0 ? 0.0 : 1.0;
  const auto significand = leading + std::ldexp(static_cast<double>(fraction), -L::fraction_bits);
  return sign * std::ldexp(significand, std::max(exponent, 1) - L::bias);
}

/// All finite values from 0 up; the index is the pattern.
template <class T>
std::vector<double> finite_values() {
  std::vector<double> values;
  for (unsigned bits = 0; std::isfinite(value_of<T>(bits)); ++bits)
    values.push_back(value_of<T>(bits));
  return values;
}

template <class T, class From>
bool converts_to(From value, unsigned bits) {
  return T{value}.bits() == bits && T{-value}.bits() == (bits | 0x8000U);
}

} // namespace

static_assert(std::is_trivially_copyable_v<Float16> && std::is_trivially_default_constructible_v<BFloat16>);
static_assert(sizeof(Float16) == 2 && alignof(BFloat16) == 2);
static_assert(!std::is_convertible_v<float, Float16> && std::is_convertible_v<Float16, float>);
static_assert(!std::is_convertible_v<Float16, BFloat16>);
static_assert(Float16{1.5F} == 1.5F && Float16{3} == 3 && BFloat16{-0.5} < 0);
static_assert(std::numeric_limits<Float16>::max() == 65504.0F && std::numeric_limits<Float16>::epsilon() == 0x1p-10F);
static_assert(std::numeric_limits<Float16>::min() == 0x1p-14F
              && std::numeric_limits<Float16>::denorm_min() == 0x1p-24F);
static_assert(std::numeric_limits<BFloat16>::max() == 0x1.FEp127F && std::numeric_limits<BFloat16>::min() == 0x1p-126F);
static_assert(std::numeric_limits<BFloat16>::epsilon() == 0x1p-7F);
static_assert(std::numeric_limits<Float16>::digits10 == 3 && std::numeric_limits<Float16>::max_digits10 == 5);
static_assert(std::numeric_limits<Float16>::max_exponent == 16 && std::numeric_limits<Float16>::min_exponent == -13);
static_assert(std::numeric_limits<Float16>::max_exponent10 == 4 && std::numeric_limits<Float16>::min_exponent10 == -4);
static_assert(std::numeric_limits<BFloat16>::max_exponent10 == std::numeric_limits<float>::max_exponent10
              && std::numeric_limits<BFloat16>::min_exponent10 == std::numeric_limits<float>::min_exponent10);
static_assert(std::numeric_limits<Float16>::has_denorm == std::denorm_present
              && !std::numeric_limits<BFloat16>::has_denorm_loss);
static_assert(Float16{2049U} == 2048 && Float16{std::size_t{3}} == 3 && BFloat16{-257L} == -256 && Float16{true} == 1);
static_assert(!std::is_convertible_v<std::uint64_t, Float16> && !std::is_constructible_v<Float16, const void*>);

TEMPLATE_TEST_CASE("every pattern of 16 bits is its number, and the number is the pattern again", "", Float16,
                   BFloat16) {
  unsigned wrong = 0;
  for (unsigned bits = 0; bits < patterns; ++bits) {
    const auto number = pattern<TestType>(bits);
    const float value = number;
    const auto expected = value_of<TestType>(bits);
    const auto quiet = 1U << (Layout<TestType>::fraction_bits - 1);
    const bool is_right = std::isnan(expected)
                              ? std::isnan(value) && TestType{value}.bits() == (bits | quiet)
                              : static_cast<double>(value) == expected && std::signbit(value) == (bits >= 0x8000U)
                                    && TestType{value}.bits() == bits && TestType{expected}.bits() == bits;
    wrong += is_right ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("between two numbers of 16 bits the nearer one is taken, and in the middle the even one", "",
                   Float16, BFloat16) {
  using T = TestType;
  const auto values = finite_values<T>();
  const auto last = static_cast<unsigned>(values.size()) - 1;
  unsigned wrong = 0;
  for (unsigned bits = 0; bits <= last; ++bits) {
    // Behind the last number is the one that the format would have next: what rounds there is infinite.
    const auto next = bits < last ? values[bits + 1] : 2 * values[bits] - values[bits - 1];
    const auto middle = (values[bits] + next) / 2;
    const auto as_float = static_cast<float>(middle);
    const auto even = bits % 2 == 0 ? bits : bits + 1;
    const bool is_right = static_cast<double>(as_float) == middle && converts_to<T>(as_float, even)
                          && converts_to<T>(std::nextafter(as_float, 0.0F), bits)
                          && converts_to<T>(std::nextafter(as_float, HUGE_VALF), bits + 1)
                          // A double is rounded once: by way of a float these would become the middle first.
                          && converts_to<T>(middle, even) && converts_to<T>(std::nextafter(middle, 0.0), bits)
                          && converts_to<T>(std::nextafter(middle, HUGE_VAL), bits + 1);
    wrong += is_right ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("what has no number of 16 bits becomes infinite, zero or a quiet NaN", "", Float16, BFloat16) {
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  const auto infinite = Limits::infinity().bits();
  CHECK(converts_to<T>(std::numeric_limits<float>::max(), infinite));
  CHECK(converts_to<T>(HUGE_VALF, infinite));
  CHECK(converts_to<T>(std::numeric_limits<double>::max(), infinite));
  CHECK(converts_to<T>(HUGE_VAL, infinite));
  CHECK(converts_to<T>(std::numeric_limits<float>::denorm_min(), 0));
  CHECK(converts_to<T>(std::numeric_limits<double>::denorm_min(), 0));
  CHECK(std::isnan(T{std::nanf("")}));
  CHECK(std::isnan(T{std::nan("")}));
  CHECK(std::isnan(T{-std::nanf("")}));
  CHECK(std::isnan(Limits::quiet_NaN()));
  CHECK(std::isnan(Limits::signaling_NaN()));
  CHECK(std::isinf(Limits::infinity()));
  CHECK(Limits::lowest() == -Limits::max());
}

TEMPLATE_TEST_CASE("whole numbers of all sizes and signs are rounded once", "", Float16, BFloat16) {
  using T = TestType;
  constexpr auto digits = static_cast<unsigned>(std::numeric_limits<T>::digits);
  unsigned wrong = 0;
  // Around the middle between 2 numbers, once below an even one and once above: by way of a float or a double, what is
  // 1 beside it would become the middle first.
  for (unsigned exponent = digits; exponent < 64; ++exponent)
    for (const std::uint64_t odd : {0U, 1U}) {
      const auto step = std::uint64_t{1} << (exponent + 1 - digits);
      const auto below = (std::uint64_t{1} << exponent) + odd * step;
      const T number{static_cast<double>(below)}; // exact but for infinity
      const auto low = number.bits();
      const auto high = static_cast<std::uint16_t>(low + (std::isinf(number) ? 0 : 1));
      for (const auto& [value, expected] : {std::pair{below, low},
                                            {below + step / 2 - (step > 2 ? 1 : 0), step > 2 || odd == 0 ? low : high},
                                            {below + step / 2, odd == 0 ? low : high},
                                            {below + step / 2 + (step > 2 ? 1 : 0), step > 2 || odd == 1 ? high : low},
                                            {below + step, high}}) {
        wrong += T{value}.bits() == expected ? 0 : 1;
        if (exponent < 63) {
          const auto whole = static_cast<std::int64_t>(value);
          wrong += converts_to<T>(whole, expected) ? 0 : 1;
        }
        if (exponent < 31) {
          const auto narrow = static_cast<std::int32_t>(value);
          wrong += converts_to<T>(narrow, expected) && T{static_cast<std::uint32_t>(narrow)}.bits() == expected ? 0 : 1;
        }
      }
    }
  CHECK(wrong == 0);
  // All that have 16 bits or fewer.
  for (int value = -32768; value < 65536; ++value) {
    const auto expected = T{static_cast<float>(value)}.bits();
    wrong += T{value}.bits() == expected ? 0 : 1;
    if (value < 32768)
      wrong += T{static_cast<std::int16_t>(value)}.bits() == expected ? 0 : 1;
    if (value >= 0)
      wrong += T{static_cast<std::uint16_t>(value)}.bits() == expected ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(T{std::numeric_limits<std::int64_t>::min()}.bits() == T{-0x1p63}.bits());
  CHECK(T{std::numeric_limits<std::uint64_t>::max()}.bits() == T{0x1p64}.bits());
  CHECK(T{0}.bits() == 0);
  CHECK(T{static_cast<unsigned char>(200)} == 200.0F);
  CHECK(T{static_cast<signed char>(-100)} == -100.0F);
}

TEST_CASE("numbers of 16 bits compute like floats and round on the way back") {
  Float16 half{1.0F};
  half += 0x1p-11F; // in the middle between 1 and the next: to even
  CHECK(half == 1.0F);
  half += 0x1.8p-11F;
  CHECK(half == 1.0F + 0x1p-10F);
  half -= 1.0F;
  half *= 3.0F;
  half /= 2.0F;
  CHECK(half == 0x1.8p-10F);
  BFloat16 brain{256};
  brain += 1.0F;
  CHECK(brain == 256.0F);
  CHECK(std::is_same_v<decltype(half * brain), float>);
  CHECK(dtype_of<Float16> == DType::f16);
  CHECK(dtype_of<BFloat16> == DType::bf16);
  CHECK(size_of(DType::f16) == 2);
  CHECK(size_of(DType::bf16) == 2);
  CHECK(to_string(DType::f16) == "f16");
  CHECK(to_string(DType::bf16) == "bf16");
}

#ifdef __FLT16_MAX__
TEST_CASE("the compiler's own type of 16 bits rounds alike") {
  const auto bits_of = [](_Float16 value) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  };
  unsigned wrong = 0;
  // Every 65521st float, of all sizes and both signs.
  for (std::uint64_t bits = 0; bits <= 0xFFFF'FFFFU; bits += 65521) {
    const auto narrow = static_cast<std::uint32_t>(bits);
    float value = 0;
    std::memcpy(&value, &narrow, sizeof value);
    if (!std::isnan(value))
      wrong += Float16{value}.bits() == bits_of(static_cast<_Float16>(value)) ? 0 : 1;
  }
  CHECK(wrong == 0);
}
#endif
