#include "reference.hpp"

#include <apps/nn/random.hpp>

#include <algorithm>
#include <cmath>

namespace nn::test {

std::vector<double> random_values(std::size_t count, std::uint64_t seed, double low, double high) {
  Random random{seed};
  std::vector<double> values(count);
  for (auto& value : values)
    value = low + (high - low) * random.uniform();
  return values;
}

Reference::Reference(const TrainerSpec& spec, std::vector<double> parameters)
  : spec_(spec), parameters_(std::move(parameters)), first_(parameters_.size()), second_(parameters_.size()) {
  // nop
}

std::size_t Reference::offset(std::size_t layer) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < layer; ++i)
    at += static_cast<std::size_t>((spec_.network.sizes[i] + 1) * spec_.network.sizes[i + 1]);
  return at;
}

/// The outputs of each layer for one row, behind the row itself.
std::vector<std::vector<double>> Reference::outputs_of(const double* row) const {
  const auto& sizes = spec_.network.sizes;
  std::vector<std::vector<double>> outputs{{row, row + sizes[0]}};
  for (auto& value : outputs[0])
    value *= spec_.network.input_scale;
  for (std::size_t layer = 0; layer + 1 < sizes.size(); ++layer) {
    const auto inputs = static_cast<std::size_t>(sizes[layer]);
    const auto count = static_cast<std::size_t>(sizes[layer + 1]);
    const auto* weights = parameters_.data() + offset(layer);
    std::vector<double> y(weights + inputs * count, weights + (inputs + 1) * count);
    for (std::size_t out = 0; out < count; ++out) {
      for (std::size_t in = 0; in < inputs; ++in)
        y[out] += weights[out * inputs + in] * outputs.back()[in];
      if (layer + 2 < sizes.size() && spec_.network.hidden == Activation::relu)
        y[out] = std::max(y[out], 0.0);
      else if (layer + 2 < sizes.size() && spec_.network.hidden == Activation::tanh)
        y[out] = std::tanh(y[out]);
    }
    outputs.push_back(std::move(y));
  }
  return outputs;
}

std::vector<double> Reference::forward(const std::vector<double>& x) const {
  std::vector<double> result;
  const auto inputs = static_cast<std::size_t>(spec_.network.inputs());
  for (std::size_t at = 0; at < x.size(); at += inputs) {
    const auto y = outputs_of(x.data() + at).back();
    result.insert(result.end(), y.begin(), y.end());
  }
  return result;
}

double Reference::back(const double* row, const double* target, double rows, std::vector<double>& gradient) const {
  const auto& sizes = spec_.network.sizes;
  const auto outputs = outputs_of(row);
  auto output_gradient = outputs.back();
  double loss = 0;
  if (spec_.loss == Loss::cross_entropy) {
    const auto most = *std::max_element(output_gradient.begin(), output_gradient.end());
    double sum = 0;
    for (const auto value : output_gradient)
      sum += std::exp(value - most);
    const auto label = static_cast<std::size_t>(*target);
    loss = std::log(sum) + most - output_gradient[label];
    for (std::size_t i = 0; i < output_gradient.size(); ++i)
      output_gradient[i] = (std::exp(output_gradient[i] - most) / sum - (i == label ? 1 : 0)) / rows;
  } else {
    const auto count = static_cast<double>(output_gradient.size());
    for (std::size_t i = 0; i < output_gradient.size(); ++i) {
      const auto difference = output_gradient[i] - target[i];
      loss += difference * difference / count;
      output_gradient[i] = 2 * difference / (count * rows);
    }
  }
  for (auto layer = sizes.size() - 1; layer-- > 0;) {
    const auto inputs = static_cast<std::size_t>(sizes[layer]);
    const auto count = output_gradient.size();
    const auto at = offset(layer);
    std::vector<double> below(inputs);
    for (std::size_t out = 0; out < count; ++out) {
      for (std::size_t in = 0; in < inputs; ++in) {
        gradient[at + out * inputs + in] += output_gradient[out] * outputs[layer][in];
        below[in] += output_gradient[out] * parameters_[at + out * inputs + in];
      }
      gradient[at + inputs * count + out] += output_gradient[out];
    }
    for (std::size_t in = 0; in < inputs; ++in) {
      const auto y = outputs[layer][in];
      if (spec_.network.hidden == Activation::relu)
        below[in] = y > 0 ? below[in] : 0;
      else if (spec_.network.hidden == Activation::tanh)
        below[in] *= 1 - y * y;
    }
    output_gradient = std::move(below);
  }
  return loss;
}

void Reference::update(const std::vector<double>& gradient) {
  const auto& optimizer = spec_.optimizer;
  ++steps_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto step = gradient[i] + optimizer.weight_decay * parameters_[i];
    if (optimizer.kind == OptimizerKind::sgd) {
      first_[i] = optimizer.momentum * first_[i] + step;
      parameters_[i] -= optimizer.rate * first_[i];
      continue;
    }
    first_[i] = optimizer.beta1 * first_[i] + (1 - optimizer.beta1) * step;
    second_[i] = optimizer.beta2 * second_[i] + (1 - optimizer.beta2) * step * step;
    const auto mean = first_[i] / (1 - std::pow(optimizer.beta1, steps_));
    const auto square = second_[i] / (1 - std::pow(optimizer.beta2, steps_));
    parameters_[i] -= optimizer.rate * mean / (std::sqrt(square) + optimizer.epsilon);
  }
}

double Reference::step(const std::vector<double>& x, const std::vector<double>& targets) {
  const auto inputs = static_cast<std::size_t>(spec_.network.inputs());
  const auto wide = spec_.loss == Loss::cross_entropy ? 1 : static_cast<std::size_t>(spec_.network.outputs());
  const auto rows = x.size() / inputs;
  std::vector<double> gradient(parameters_.size());
  double loss = 0;
  for (std::size_t row = 0; row < rows; ++row)
    loss += back(x.data() + row * inputs, targets.data() + row * wide, static_cast<double>(rows), gradient);
  update(gradient);
  return loss / static_cast<double>(rows);
}

} // namespace nn::test
