// Forward, backward and update of the linear layer, with the library's kernels and BLAS.
#include "linear_model.hpp"

#include <gpuactors/kernels/matrix.hpp>
#include <gpuactors/kernels/training.hpp>

#include <fmt/format.h>

#include <span>

namespace tour {

using gpuactors::DType;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::Tensor;

namespace kernels = gpuactors::kernels;

namespace {

/// Elements that one index sums up on the way to the loss.
constexpr std::uint64_t chunk = 16;

std::uint64_t count_of(const Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.size());
}

} // namespace

Result<LinearModel> LinearModel::make(gpuactors::Stream& stream, const TrainerConfig& config) {
  const std::int64_t inputs = config.inputs();
  const std::int64_t outputs = config.outputs();
  if (inputs < 1 || outputs < 1 || config.parameters_size() != (inputs + 1) * outputs)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("a layer {} -> {} takes (inputs + 1) * outputs parameters, not {}", inputs,
                                       outputs, config.parameters_size()));
  LinearModel model{stream, config};
  GPUACTORS_LET(weights, model.make_parameter(config.parameters().data(), {inputs, outputs}));
  GPUACTORS_LET(bias, model.make_parameter(config.parameters().data() + inputs * outputs, {1, outputs}));
  model.weights_ = std::move(weights);
  model.bias_ = std::move(bias);
  return model;
}

Result<LinearModel::Parameter> LinearModel::make_parameter(const float* values, std::vector<std::int64_t> shape) {
  const auto count = static_cast<std::size_t>(shape[0] * shape[1]);
  const std::vector<float> zeros(count, 0.0F);
  GPUACTORS_LET(value, stream_->tensor_from(std::span{values, count}, shape));
  GPUACTORS_LET(gradient, stream_->tensor_from(zeros, shape));
  GPUACTORS_LET(first, stream_->tensor_from(zeros, shape));
  GPUACTORS_LET(second, stream_->tensor_from(zeros, shape));
  return Parameter{std::move(value), std::move(gradient), std::move(first), std::move(second)};
}

Result<void> LinearModel::set_batch(Tensor x, Tensor target) {
  if (x.shape().size() != 2 || target.shape().size() != 2 || x.shape()[0] != target.shape()[0]
      || x.shape()[1] != config_.inputs() || target.shape()[1] != config_.outputs())
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("x is rows x {} and target rows x {}, not {} and {}", config_.inputs(),
                                       config_.outputs(), fmt::join(x.shape(), " x "),
                                       fmt::join(target.shape(), " x ")));
  const auto elements = target.size();
  const auto sums = (elements + static_cast<std::int64_t>(chunk) - 1) / static_cast<std::int64_t>(chunk);
  GPUACTORS_LET(y, stream_->tensor(DType::f32, target.shape()));
  GPUACTORS_LET(slope, stream_->tensor(DType::f32, target.shape()));
  GPUACTORS_LET(errors, stream_->tensor(DType::f32, target.shape()));
  GPUACTORS_LET(partial, stream_->tensor(DType::f32, {sums}));
  x_ = std::move(x);
  target_ = std::move(target);
  y_ = std::move(y);
  slope_ = std::move(slope);
  errors_ = std::move(errors);
  partial_ = std::move(partial);
  return {};
}

Result<std::vector<float>> LinearModel::train(int steps) {
  if (steps < 1 || !x_)
    return gpuactors::fail(Errc::invalid_argument, "training takes a batch and at least one step");
  GPUACTORS_LET(losses, stream_->tensor(DType::f32, {steps}));
  for (int i = 0; i < steps; ++i)
    GPUACTORS_TRY(step(losses.data<float>() + i));
  return stream_->to_host<float>(losses);
}

Result<void> LinearModel::step(float* loss) {
  const auto rows = static_cast<std::uint64_t>(target_.shape()[0]);
  const auto outputs = static_cast<std::uint64_t>(target_.shape()[1]);
  const auto elements = count_of(target_);

  // Forward: y = x * weights + bias.
  GPUACTORS_TRY(stream_->gemm(x_, weights_.value, y_));
  GPUACTORS_TRY(stream_->launch(kernels::add_to_rows<float>(), elements, outputs, bias_.value, y_));
  GPUACTORS_TRY(mean_squared_error(loss));

  // Backward: slope = d loss / d y, then through x and the sum over rows.
  GPUACTORS_TRY(stream_->launch(kernels::mse_gradient<float>(), elements, elements, y_, target_, slope_));
  GPUACTORS_TRY(stream_->gemm(x_, slope_, weights_.gradient, {.transpose_a = true}));
  GPUACTORS_TRY(stream_->launch(kernels::column_sums<float>(), outputs, rows, outputs, slope_, bias_.gradient));
  ++steps_done_;
  GPUACTORS_TRY(update(weights_));
  return update(bias_);
}

Result<void> LinearModel::mean_squared_error(float* loss) {
  const auto elements = count_of(target_);
  const auto sums = count_of(partial_);
  GPUACTORS_TRY(stream_->launch(kernels::squared_error<float>(), elements, elements, y_, target_, errors_));
  GPUACTORS_TRY(stream_->launch(kernels::sum_chunks<float>(), sums, elements, chunk, errors_, partial_));
  return stream_->launch(kernels::sum_chunks<float>(), 1, sums, sums, partial_, loss);
}

Result<void> LinearModel::update(Parameter& parameter) {
  const auto count = count_of(parameter.value);
  const auto rate = static_cast<float>(config_.rate());
  auto* gradient = parameter.gradient.data<float>();
  if (config_.optimizer() == TrainerConfig::SGD)
    return stream_->launch(kernels::sgd_step<float>(), count, rate, gradient, parameter.value);
  kernels::AdamParameters<float> adam;
  adam.rate = rate;
  return stream_->launch(kernels::adam_step<float>(), count, adam.at_step(steps_done_), gradient, parameter.first,
                         parameter.second, parameter.value);
}

} // namespace tour
