// A network and its training in plain loops of float64, to hold the one on devices against.
#pragma once

#include <apps/nn/trainer.hpp>

#include <cstdint>
#include <vector>

namespace nn::test {

/// Numbers uniform in [low, high), decided by the seed.
std::vector<double> random_values(std::size_t count, std::uint64_t seed, double low = -1, double high = 1);

/// The same steps as `Trainer`, one row and one number at a time.
class Reference {
public:
  /// `parameters`: weight and bias of each layer in turn, without gaps.
  Reference(const TrainerSpec& spec, std::vector<double> parameters);

  /// Outputs for each row of x.
  [[nodiscard]] std::vector<double> forward(const std::vector<double>& x) const;

  /// One step. `targets` are labels for cross-entropy, else rows x outputs. Returns the mean loss before it.
  double step(const std::vector<double>& x, const std::vector<double>& targets);

  [[nodiscard]] const std::vector<double>& parameters() const noexcept {
    return parameters_;
  }

private:
  [[nodiscard]] std::size_t offset(std::size_t layer) const;
  [[nodiscard]] std::vector<std::vector<double>> outputs_of(const double* row) const;
  double back(const double* row, const double* target, double rows, std::vector<double>& gradient) const;
  void update(const std::vector<double>& gradient);

  TrainerSpec spec_;
  std::vector<double> parameters_;
  std::vector<double> first_;
  std::vector<double> second_;
  int steps_ = 0;
};

} // namespace nn::test
