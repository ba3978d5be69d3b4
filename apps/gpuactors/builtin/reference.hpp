// Reference results in float64, and the random numbers to compute them from: pure functions to check devices against.
#pragma once

#include <gpuactors/device/float16.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace gpuactors::reference {

/// Returns the first `count` numbers of the random sequence `seed`: uniform in [-1, 1), exact in float32 and float64
/// and rounded in shorter types, the same on every machine.
template <class T>
[[nodiscard]] std::vector<T> random_values(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 engine{seed};
  std::vector<T> values(count);
  for (auto& value : values)
    // The upper 24 bits, which float32 holds exactly, so that both precisions compute from the same numbers.
    value = static_cast<T>(static_cast<double>(engine() >> 40) / static_cast<double>(1U << 23) - 1.0);
  return values;
}

/// Returns up to `wanted` of `rows` row numbers, spread evenly, the first and the last among them.
[[nodiscard]] std::vector<std::int64_t> sample_rows(std::int64_t rows, std::int64_t wanted);

/// Returns row `row` of a * b in float64: `a` has `inner` columns, `b` has `inner` rows and `columns` columns, both
/// row-major.
template <class T>
[[nodiscard]] std::vector<double> product_row(std::span<const T> a, std::span<const T> b, std::size_t inner,
                                              std::size_t columns, std::size_t row) {
  std::vector<double> sums(columns, 0.0);
  for (std::size_t k = 0; k < inner; ++k) {
    const auto factor = static_cast<double>(a[row * inner + k]);
    const auto* from = b.data() + k * columns;
    for (std::size_t j = 0; j < columns; ++j)
      sums[j] += factor * static_cast<double>(from[j]);
  }
  return sums;
}

/// Returns row `row` of x * transpose(x) in float64: `x` has `rows` rows and `columns` columns, row-major.
template <class T>
[[nodiscard]] std::vector<double> gram_row(std::span<const T> x, std::size_t rows, std::size_t columns,
                                           std::size_t row) {
  std::vector<double> sums(rows, 0.0);
  const auto* left = x.data() + row * columns;
  for (std::size_t i = 0; i < rows; ++i) {
    const auto* right = x.data() + i * columns;
    for (std::size_t k = 0; k < columns; ++k)
      sums[i] += static_cast<double>(left[k]) * static_cast<double>(right[k]);
  }
  return sums;
}

/// Returns x*x + 2*x + 1 in float64.
[[nodiscard]] constexpr double polynomial(double x) noexcept {
  return x * x + 2.0 * x + 1.0;
}

/// Measures how far results are from the reference, gathered part by part: the Frobenius norm of the difference over
/// that of the reference, and the largest difference.
class ErrorMeter {
public:
  /// Adds one pair of values.
  void add(double expected, double value) noexcept;

  /// Adds as many pairs as `expected` has elements.
  template <class T>
  void add(std::span<const double> expected, std::span<const T> values) noexcept {
    for (std::size_t i = 0; i < expected.size(); ++i)
      add(expected[i], static_cast<double>(values[i]));
  }

  /// Returns the relative error: 0 if nothing differs; infinity if something does and the reference is zero, or if a
  /// value is not a number.
  [[nodiscard]] double relative() const noexcept;

  /// Returns the largest absolute difference; infinity if a value is not a number.
  [[nodiscard]] double largest() const noexcept;

private:
  double difference_ = 0;
  double reference_ = 0;
  double largest_ = 0;
};

/// Returns the square root of the sum of the squares.
template <class T>
[[nodiscard]] double frobenius_norm(std::span<const T> values) noexcept;

extern template double frobenius_norm<float>(std::span<const float>) noexcept;
extern template double frobenius_norm<double>(std::span<const double>) noexcept;
extern template double frobenius_norm<Float16>(std::span<const Float16>) noexcept;
extern template double frobenius_norm<BFloat16>(std::span<const BFloat16>) noexcept;

} // namespace gpuactors::reference
