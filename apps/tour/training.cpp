// T3, T16, T17: an actor that trains a linear layer and keeps it on its device, on a whole device or a share of one.
#include "linear_model.hpp"
#include "programs.hpp"
#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tour {

using gpuactors::Init;
using gpuactors::Options;
using gpuactors::Result;
using gpuactors::value_or_throw;

namespace {

// -- the actor: what a user writes ----------------------------------------------------------------

/// `Base` decides what it owns: a GPUActor whole devices, a FractionalGPUActor a share of one.
template <class Base>
class Trainer : public Base {
public:
  Trainer(Init init, const TrainerConfig& config)
    : Base(std::move(init)), model_(value_or_throw(LinearModel::make(this->gpu().stream(), config))) {
    // nop
  }

  /// Takes over the batch; it stays on the device.
  Result<void> load(const Batch& batch) {
    auto& stream = this->gpu().stream();
    GPUACTORS_LET(shared_x, this->tensors().get(batch.x()));
    GPUACTORS_LET(shared_target, this->tensors().get(batch.target()));
    GPUACTORS_LET(x, shared_x.on(stream));
    GPUACTORS_LET(target, shared_target.on(stream));
    return model_.set_batch(std::move(x), std::move(target));
  }

  /// Goes on from where the last message left the parameters.
  Result<TrainReply> train(const TrainRequest& request) {
    GPUACTORS_LET(losses, model_.train(request.steps()));
    TrainReply reply;
    reply.mutable_losses()->Add(losses.begin(), losses.end());
    *reply.mutable_place() = place_of(*this);
    return reply;
  }

private:
  LinearModel model_;
};

using WholeTrainer = Trainer<gpuactors::GPUActor>;
using ShareTrainer = Trainer<gpuactors::FractionalGPUActor>;

GPUACTORS_ACTOR("trainer", WholeTrainer, TrainerConfig)
    .method("load", &WholeTrainer::load)
    .method("train", &WholeTrainer::train);
GPUACTORS_ACTOR("share_trainer", ShareTrainer, TrainerConfig)
    .method("load", &ShareTrainer::load)
    .method("train", &ShareTrainer::train);

// -- the programs ---------------------------------------------------------------------------------

constexpr double loss_tolerance = 1e-4;

/// A random batch and random parameters, uniform within 1/sqrt(inputs) as is usual for a linear layer.
TrainingRun make_run(std::size_t rows, std::size_t inputs, std::size_t outputs, std::uint64_t seed) {
  TrainingRun run;
  run.rows = rows;
  run.inputs = inputs;
  run.outputs = outputs;
  run.x = random_values(rows * inputs, seed);
  run.target = random_values(rows * outputs, seed + 1);
  const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(inputs)));
  run.parameters = random_values((inputs + 1) * outputs, seed + 2, -bound, bound);
  return run;
}

TrainerConfig config_of(const TrainingRun& run) {
  TrainerConfig config;
  config.set_inputs(static_cast<int>(run.inputs));
  config.set_outputs(static_cast<int>(run.outputs));
  config.set_optimizer(run.adam ? TrainerConfig::ADAM : TrainerConfig::SGD);
  config.set_rate(run.rate);
  config.mutable_parameters()->Add(run.parameters.begin(), run.parameters.end());
  return config;
}

/// Trains on an actor of type `type`, in several messages so that the layer has to stay on the device between them.
Result<std::vector<float>> train(gpuactors::Cluster& cluster, Row& row, const TrainingRun& run, const char* type,
                                 const Options& options, int messages) {
  const auto rows = static_cast<std::int64_t>(run.rows);
  GPUACTORS_LET(x, cluster.put(run.x, {rows, static_cast<std::int64_t>(run.inputs)}));
  GPUACTORS_LET(target, cluster.put(run.target, {rows, static_cast<std::int64_t>(run.outputs)}));
  GPUACTORS_LET(trainer, cluster.spawn(type, config_of(run), options));
  Batch batch;
  *batch.mutable_x() = x.ref();
  *batch.mutable_target() = target.ref();
  GPUACTORS_TRY(trainer.call("load", std::move(batch)).get());
  std::vector<float> losses;
  TrainRequest request;
  request.set_steps(run.steps / messages);
  const Stopwatch watch;
  for (int i = 0; i < messages; ++i) {
    GPUACTORS_LET(reply, trainer.call<TrainReply>("train", request).get());
    losses.insert(losses.end(), reply.losses().begin(), reply.losses().end());
    row.device = to_string(reply.place());
  }
  row.seconds = watch.seconds();
  GPUACTORS_TRY(cluster.kill(trainer));
  return losses;
}

/// Holds every loss against that of the same step in float64.
void check_losses(Row& row, const TrainingRun& run, const std::vector<float>& losses) {
  const auto expected = reference_losses(run);
  if (!row.check(losses.size() == expected.size(), "{} losses were expected, {} came", expected.size(), losses.size()))
    return;
  double worst = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto error = std::abs(static_cast<double>(losses[i]) - expected[i]) / expected[i];
    if (!(error <= worst))
      worst = error;
  }
  row.result = fmt::format("loss {:.6f} -> {:.6f} in {} steps", losses.front(), losses.back(), run.steps);
  row.check_error(worst, loss_tolerance);
  row.check(losses.back() < losses.front(), "a loss below the first one, {}, was expected at the end, {} came",
            losses.front(), losses.back());
}

} // namespace

Result<void> run_t3(Tour& tour) {
  GPUACTORS_LET(cluster, open(tour.machine().all()));
  for (const auto inputs : std::vector<std::size_t>{100, 200, 300}) {
    auto& row = tour.row(fmt::format("linear {} -> 1, SGD", inputs));
    auto run = make_run(100, inputs, 1, 3 * inputs);
    run.rate = 0.01;
    run.steps = 10;
    GPUACTORS_LET(losses, train(cluster, row, run, "trainer", {.gpus = 1}, 1));
    check_losses(row, run, losses);
  }
  return {};
}

Result<void> run_t16(Tour& tour) {
  GPUACTORS_LET(cluster, open(tour.machine().all()));
  auto& row = tour.row("linear 10 -> 2, Adam");
  auto run = make_run(100, 10, 2, 16);
  run.adam = true;
  run.rate = 0.01;
  run.steps = 1000;
  GPUACTORS_LET(losses, train(cluster, row, run, "share_trainer", {.gpus = 0.5}, 10));
  check_losses(row, run, losses);
  return {};
}

Result<void> run_t17(Tour& tour) {
  GPUACTORS_LET(cluster, open(tour.machine().all()));
  auto& row = tour.row("linear 10 -> 1, SGD");
  auto run = make_run(64, 10, 1, 17);
  run.rate = 1e-4;
  run.steps = 1000;
  GPUACTORS_LET(losses, train(cluster, row, run, "share_trainer", {.gpus = 0.5}, 10));
  check_losses(row, run, losses);
  return {};
}

} // namespace tour
