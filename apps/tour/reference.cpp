// The float64 references.
#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace tour {

std::vector<float> random_values(std::size_t count, std::uint64_t seed, float low, float high) {
  // splitmix64: one multiplication chain a number, which matters at tens of millions of them.
  std::vector<float> values(count);
  auto state = seed;
  for (auto& value : values) {
    state += 0x9e3779b97f4a7c15ULL;
    auto mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    mixed ^= mixed >> 31;
    value = low + (high - low) * (static_cast<float>(mixed >> 40) * 0x1p-24F);
  }
  return values;
}

double relative_error(std::span<const float> values, std::span<const double> expected) {
  if (values.size() != expected.size())
    return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto d = static_cast<double>(values[i]) - expected[i];
    difference += d * d;
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

std::vector<std::size_t> sampled_rows(std::size_t n) {
  constexpr std::size_t samples = 12;
  std::set<std::size_t> rows;
  for (std::size_t i = 0; i < samples; ++i)
    rows.insert(i * (n - 1) / (samples - 1));
  return {rows.begin(), rows.end()};
}

std::vector<double> reference_product(std::span<const float> a, std::span<const float> b, std::size_t n,
                                      const std::vector<std::size_t>& rows, bool transpose_b) {
  std::vector<double> product(rows.size() * n, 0.0);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto* left = a.data() + rows[r] * n;
    auto* out = product.data() + r * n;
    if (transpose_b) {
      for (std::size_t column = 0; column < n; ++column)
        for (std::size_t k = 0; k < n; ++k)
          out[column] += static_cast<double>(left[k]) * static_cast<double>(b[column * n + k]);
      continue;
    }
    for (std::size_t k = 0; k < n; ++k) {
      const auto factor = static_cast<double>(left[k]);
      const auto* right = b.data() + k * n;
      for (std::size_t column = 0; column < n; ++column)
        out[column] += factor * static_cast<double>(right[column]);
    }
  }
  return product;
}

std::vector<float> take_rows(std::span<const float> matrix, std::size_t n, const std::vector<std::size_t>& rows) {
  std::vector<float> taken;
  taken.reserve(rows.size() * n);
  for (const auto row : rows) {
    const auto values = matrix.subspan(row * n, n);
    taken.insert(taken.end(), values.begin(), values.end());
  }
  return taken;
}

std::vector<double> reference_losses(const TrainingRun& run) {
  const auto weights = run.inputs * run.outputs;
  std::vector<double> parameters(run.parameters.begin(), run.parameters.end());
  std::vector<double> first(parameters.size(), 0.0);
  std::vector<double> second(parameters.size(), 0.0);
  std::vector<double> losses;
  const auto elements = static_cast<double>(run.rows * run.outputs);
  for (int step = 1; step <= run.steps; ++step) {
    std::vector<double> gradient(parameters.size(), 0.0);
    double loss = 0;
    for (std::size_t row = 0; row < run.rows; ++row) {
      const auto* x = run.x.data() + row * run.inputs;
      for (std::size_t out = 0; out < run.outputs; ++out) {
        double y = parameters[weights + out];
        for (std::size_t in = 0; in < run.inputs; ++in)
          y += static_cast<double>(x[in]) * parameters[in * run.outputs + out];
        const auto off = y - static_cast<double>(run.target[row * run.outputs + out]);
        loss += off * off / elements;
        const auto slope = 2 * off / elements;
        for (std::size_t in = 0; in < run.inputs; ++in)
          gradient[in * run.outputs + out] += slope * static_cast<double>(x[in]);
        gradient[weights + out] += slope;
      }
    }
    losses.push_back(loss);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!run.adam) {
        parameters[i] -= run.rate * gradient[i];
        continue;
      }
      first[i] = 0.9 * first[i] + 0.1 * gradient[i];
      second[i] = 0.999 * second[i] + 0.001 * gradient[i] * gradient[i];
      const auto mean = first[i] / (1 - std::pow(0.9, step));
      const auto variance = second[i] / (1 - std::pow(0.999, step));
      parameters[i] -= run.rate * mean / (std::sqrt(variance) + 1e-8);
    }
  }
  return losses;
}

} // namespace tour
