// Inputs and float64 references: plain loops on the CPU that share no code with what they check.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tour {

/// `count` numbers, uniform in [low, high), the same for the same seed.
[[nodiscard]] std::vector<float> random_values(std::size_t count, std::uint64_t seed, float low = -1, float high = 1);

/// |values - expected| / |expected|, in the Euclidean norm. Sizes that differ give infinity.
[[nodiscard]] double relative_error(std::span<const float> values, std::span<const double> expected);

/// Rows of an n x n matrix that stand for all of it: first, last, and some between them. Never more than n.
[[nodiscard]] std::vector<std::size_t> sampled_rows(std::size_t n);

/// Rows `rows` of a * b, all n x n and row-major; with `transpose_b` of a * transpose(b). One row after the other.
[[nodiscard]] std::vector<double> reference_product(std::span<const float> a, std::span<const float> b, std::size_t n,
                                                    const std::vector<std::size_t>& rows, bool transpose_b = false);

/// The same rows of a result, one after the other.
[[nodiscard]] std::vector<float> take_rows(std::span<const float> matrix, std::size_t n,
                                           const std::vector<std::size_t>& rows);

/// A training run of one linear layer on one batch.
struct TrainingRun {
  std::size_t rows = 0;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  bool adam = false;
  double rate = 0;
  int steps = 0;
  /// rows x inputs and rows x outputs.
  std::vector<float> x;
  std::vector<float> target;
  /// Weights (inputs x outputs), then biases.
  std::vector<float> parameters;
};

/// Mean squared error before each step.
[[nodiscard]] std::vector<double> reference_losses(const TrainingRun& run);

} // namespace tour
