#include <gpuactors/collective/reduction.hpp>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace gpuactors {

namespace {

template <class T>
T sum_of(T a, T b) noexcept {
  if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
  } else {
    return T{a + b};
  }
}

template <class T, class F>
void combine_each(const std::byte* values, T* into, std::size_t count, F function) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, values + i * sizeof(T), sizeof(T));
    into[i] = function(value, into[i]);
  }
}

template <class T>
void combine_as(Reduction reduction, const void* values, void* into, std::size_t count) noexcept {
  const auto* from = static_cast<const std::byte*>(values);
  auto* own = static_cast<T*>(into);
  if (reduction == Reduction::min)
    combine_each(from, own, count, [](T theirs, T mine) { return std::min(theirs, mine); });
  else if (reduction == Reduction::max)
    combine_each(from, own, count, [](T theirs, T mine) { return std::max(theirs, mine); });
  else
    combine_each(from, own, count, [](T theirs, T mine) { return sum_of(theirs, mine); });
}

} // namespace

std::string_view to_string(Reduction reduction) noexcept {
  switch (reduction) {
  case Reduction::sum:
    return "sum";
  case Reduction::min:
    return "min";
  case Reduction::max:
    return "max";
  }
  return "?";
}

bool is_reducible(DType dtype) noexcept {
  return size_of(dtype) > 0 && dtype != DType::u8;
}

void combine(Reduction reduction, DType dtype, const void* values, void* into, std::size_t count) noexcept {
  if (dtype == DType::f32)
    combine_as<float>(reduction, values, into, count);
  else if (dtype == DType::f64)
    combine_as<double>(reduction, values, into, count);
  else if (dtype == DType::i32)
    combine_as<std::int32_t>(reduction, values, into, count);
  else if (dtype == DType::i64)
    combine_as<std::int64_t>(reduction, values, into, count);
  else if (dtype == DType::f16)
    combine_as<Float16>(reduction, values, into, count);
  else if (dtype == DType::bf16)
    combine_as<BFloat16>(reduction, values, into, count);
}

} // namespace gpuactors
