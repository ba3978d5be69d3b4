#include "plan.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace train {

using gpuactors::Errc;
using gpuactors::Result;

Result<TrainingSpec> parse_plan(const Plan& plan) {
  TrainingSpec spec;
  auto& network = spec.trainer.network;
  network.sizes.assign(plan.sizes().begin(), plan.sizes().end());
  GPUACTORS_LET(activation, nn::parse_activation(plan.activation()));
  network.hidden = activation;
  network.dtype = plan.wide() ? gpuactors::DType::f64 : gpuactors::DType::f32;
  network.input_scale = plan.input_scale();
  auto& optimizer = spec.trainer.optimizer;
  if (plan.optimizer() != "sgd" && plan.optimizer() != "adam")
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("there is no optimizer \"{}\"; there are sgd and adam", plan.optimizer()));
  optimizer.kind = plan.optimizer() == "adam" ? nn::OptimizerKind::adam : nn::OptimizerKind::sgd;
  optimizer.rate = plan.rate();
  optimizer.momentum = plan.momentum();
  optimizer.weight_decay = plan.weight_decay();
  spec.seed = plan.seed();
  spec.split_seed = plan.split_seed();
  spec.test_part = plan.test_part();
  spec.batch = plan.batch();
  return spec;
}

Result<TrainingRun> make_training(gpuactors::Actor& actor, const Plan& plan) {
  if (actor.gpu_count() == 0)
    return gpuactors::fail(Errc::invalid_argument, "a trainer needs a device: ask for one, or a share of one");
  if (actor.gpu_count() > 1)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("a trainer uses one device, or a share of one, not {}", actor.gpu_count()));
  GPUACTORS_LET(spec, parse_plan(plan));
  GPUACTORS_LET(features, actor.tensors().get(plan.features()));
  GPUACTORS_LET(labels, actor.tensors().get(plan.labels()));
  GPUACTORS_LET(numbers, features.host<float>());
  GPUACTORS_LET(classes, labels.host<std::int32_t>());
  return TrainingRun::make(actor.gpu().stream(), spec, numbers, classes);
}

Status status_of(gpuactors::Actor& actor, const TrainingRun& training) {
  Status status;
  status.set_epochs(training.epochs());
  status.set_steps(training.steps());
  status.set_steps_per_epoch(training.steps_per_epoch());
  status.set_train_rows(static_cast<std::int64_t>(training.split().train.size()));
  status.set_test_rows(static_cast<std::int64_t>(training.split().test.size()));
  status.set_node(actor.lease().node);
  const auto& device = actor.lease().devices.front();
  status.set_device(fmt::format("{} {}, share {}", gpuactors::to_string(actor.gpu().device().kind), device.index,
                                device.share.to_double()));
  status.set_device_uuid(actor.gpu().device().uuid);
  status.set_pid(::getpid());
  status.set_restarts(actor.restarts());
  status.set_position(training.position());
  if (training.last_loss())
    status.set_last_loss(*training.last_loss());
  return status;
}

Evaluation to_message(const Quality& quality) {
  Evaluation message;
  message.set_loss(quality.loss);
  message.set_accuracy(quality.accuracy);
  message.set_rows(quality.rows);
  return message;
}

Progress to_message(const StepReport& report) {
  Progress message;
  message.set_epochs(report.epochs);
  message.set_steps(report.steps);
  message.mutable_losses()->Add(report.losses.begin(), report.losses.end());
  message.set_rows(report.rows);
  return message;
}

double input_scale_for(std::span<const float> features) {
  float most = 0;
  for (const auto value : features)
    most = std::max(most, std::abs(value));
  // What single precision can have as a factor, though numbers below it would take a larger one.
  constexpr double largest = 126;
  return most == 0 ? 1 : std::exp2(std::min(-std::ceil(std::log2(static_cast<double>(most))), largest));
}

} // namespace train
