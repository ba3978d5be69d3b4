// A training actor owns a whole device and keeps what it learns on it. Its method streams its progress: the caller
// takes item by item while the training goes on, and the actor waits when the caller is slow.
#include "examples.pb.h"

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/kernels/matrix.hpp>
#include <gpuactors/kernels/training.hpp>

#include <fmt/format.h>

using examples::Line;
using examples::Number;

// Learns the line y = slope * x + intercept from points: (x, 1) * (slope, intercept) should be y.
class LineTrainer : public gpuactors::GPUActor {
public:
  using GPUActor::GPUActor;

  gpuactors::Result<void> learn(const Line& truth, gpuactors::ReplyStream<Line>& progress) {
    auto& stream = gpu().stream();
    std::vector<float> points, values;
    for (int i = -8; i <= 8; ++i) {
      const auto x = static_cast<float>(i) / 8;
      points.insert(points.end(), {x, 1.0F});
      values.push_back(truth.slope() * x + truth.intercept());
    }
    const auto rows = static_cast<std::int64_t>(values.size());
    const auto count = values.size();
    GPUACTORS_LET(x, stream.tensor_from(points, {rows, 2}));
    GPUACTORS_LET(y, stream.tensor_from(values, {rows, 1}));
    GPUACTORS_LET(weights, stream.tensor_from(std::vector<float>{0, 0}, {2, 1}));
    GPUACTORS_LET(guess, stream.tensor(gpuactors::DType::f32, {rows, 1}));
    GPUACTORS_LET(gradient, stream.tensor(gpuactors::DType::f32, {2, 1}));
    for (int step = 1; step <= 200; ++step) {
      // Work is queued in order and runs on the device; only to_host waits for it.
      GPUACTORS_TRY(stream.gemm(x, weights, guess));
      GPUACTORS_TRY(stream.launch(gpuactors::kernels::mse_gradient<float>(), count, count, guess, y, guess));
      GPUACTORS_TRY(stream.gemm(x, guess, gradient, {.transpose_a = true}));
      GPUACTORS_TRY(stream.launch(gpuactors::kernels::sgd_step<float>(), 2, 0.2F, gradient, weights));
      if (step % 50 != 0)
        continue;
      GPUACTORS_LET(now, stream.to_host<float>(weights));
      Line line;
      line.set_slope(now[0]);
      line.set_intercept(now[1]);
      GPUACTORS_TRY(progress.write(line)); // an error when the caller has had enough: the training ends
    }
    return {};
  }
};

GPUACTORS_ACTOR("line_trainer", LineTrainer).method("learn", &LineTrainer::learn);

gpuactors::Result<void> run(int argc, char** argv) {
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(argc, argv));
  GPUACTORS_LET(trainer, cluster.spawn("line_trainer", {}, {.gpus = 1}));
  Line truth;
  truth.set_slope(2);
  truth.set_intercept(-1);
  auto progress = trainer.stream<Line>("learn", truth);
  return progress.for_each(
      [](const Line& line) { fmt::print("y = {:.3f} x + {:.3f}\n", line.slope(), line.intercept()); });
}

int main(int argc, char** argv) {
  return gpuactors::main(argc, argv, run);
}
