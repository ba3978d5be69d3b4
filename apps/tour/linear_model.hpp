// A linear layer that lives on a device: parameters, optimizer state and the batch stay there between messages.
#pragma once

#include "tour.pb.h"

#include <gpuactors/gpuactors.hpp>

#include <cstdint>
#include <vector>

namespace tour {

/// y = x * weights + bias, trained on the mean squared error by SGD or Adam, in float32.
class LinearModel {
public:
  /// @returns `invalid_argument` when sizes and parameters do not fit, `out_of_memory` when the quota is too small.
  static gpuactors::Result<LinearModel> make(gpuactors::Stream& stream, const TrainerConfig& config);

  /// Takes the batch to train on: x (rows x inputs) and target (rows x outputs), both on this device.
  gpuactors::Result<void> set_batch(gpuactors::Tensor x, gpuactors::Tensor target);

  /// Queues `steps` steps and waits for them once, at the end.
  /// @returns the loss before each step.
  gpuactors::Result<std::vector<float>> train(int steps);

private:
  /// A tensor of parameters, its gradient, and Adam's two moments of it.
  struct Parameter {
    gpuactors::Tensor value;
    gpuactors::Tensor gradient;
    gpuactors::Tensor first;
    gpuactors::Tensor second;
  };

  LinearModel(gpuactors::Stream& stream, const TrainerConfig& config) : stream_(&stream), config_(config) {
    // nop
  }

  gpuactors::Result<Parameter> make_parameter(const float* values, std::vector<std::int64_t> shape);
  gpuactors::Result<void> step(float* loss);
  gpuactors::Result<void> mean_squared_error(float* loss);
  gpuactors::Result<void> update(Parameter& parameter);

  gpuactors::Stream* stream_;
  TrainerConfig config_;
  std::uint64_t steps_done_ = 0;
  Parameter weights_;
  Parameter bias_;
  gpuactors::Tensor x_;
  gpuactors::Tensor target_;
  gpuactors::Tensor y_;
  gpuactors::Tensor slope_;
  gpuactors::Tensor errors_;
  gpuactors::Tensor partial_;
};

} // namespace tour
