#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpuactors::reference {

std::vector<std::int64_t> sample_rows(std::int64_t rows, std::int64_t wanted) {
  std::vector<std::int64_t> result;
  const auto count = std::clamp<std::int64_t>(wanted, 0, std::max<std::int64_t>(rows, 0));
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(count == 1 ? 0 : i * (rows - 1) / (count - 1));
  return result;
}

void ErrorMeter::add(double expected, double value) noexcept {
  const auto difference = std::isnan(value) ? std::numeric_limits<double>::infinity() : std::abs(value - expected);
  difference_ += difference * difference;
  reference_ += expected * expected;
  largest_ = std::max(largest_, difference);
}

double ErrorMeter::relative() const noexcept {
  if (difference_ == 0)
    return 0;
  return reference_ > 0 ? std::sqrt(difference_ / reference_) : std::numeric_limits<double>::infinity();
}

double ErrorMeter::largest() const noexcept {
  return largest_;
}

template <class T>
double frobenius_norm(std::span<const T> values) noexcept {
  double sum = 0;
  for (const auto value : values)
    sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

template double frobenius_norm<float>(std::span<const float>) noexcept;
template double frobenius_norm<double>(std::span<const double>) noexcept;
template double frobenius_norm<Float16>(std::span<const Float16>) noexcept;
template double frobenius_norm<BFloat16>(std::span<const BFloat16>) noexcept;

} // namespace gpuactors::reference
