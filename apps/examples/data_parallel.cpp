// Several workers train one model: each has all parameters and a part of the data, and all add up their gradients
// before every update. When one of them dies, the group is over; the program forms another one with those that are
// left.
#include "examples.pb.h"

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/kernels/matrix.hpp>
#include <gpuactors/kernels/training.hpp>

#include <fmt/format.h>

using examples::Line;
using examples::Number;

// Learns the line y = 2 x - 1 from its part of the points: (x, 1) * (slope, intercept) should be y.
class LineWorker : public gpuactors::WithPeers<gpuactors::FractionalGPUActor> {
public:
  using WithPeers::WithPeers;

  gpuactors::Result<Line> learn(const Number& steps) {
    auto& stream = gpu().stream();
    const auto rank = static_cast<int>(peers().rank());
    const auto workers = static_cast<int>(peers().size());
    if (workers == 0)
      return gpuactors::fail(gpuactors::Errc::invalid_argument, "this worker is in no group");
    std::vector<float> points, values;
    for (int i = rank; i <= 24; i += workers) {
      const auto x = static_cast<float>(i - 12) / 12;
      points.insert(points.end(), {x, 1.0F});
      values.push_back(2 * x - 1);
    }
    const auto rows = static_cast<std::int64_t>(values.size());
    const auto count = values.size();
    GPUACTORS_LET(x, stream.tensor_from(points, {rows, 2}));
    GPUACTORS_LET(y, stream.tensor_from(values, {rows, 1}));
    GPUACTORS_LET(guess, stream.tensor(gpuactors::DType::f32, {rows, 1}));
    GPUACTORS_LET(gradient, stream.tensor(gpuactors::DType::f32, {2, 1}));
    if (!weights_) {
      GPUACTORS_LET(weights, stream.tensor_from(std::vector<float>{0, 0}, {2, 1}));
      weights_ = std::move(weights);
    }
    // Some may have made an update more than others when the last group ended.
    GPUACTORS_TRY(peers().broadcast(stream, weights_));
    for (int step = 0; step < static_cast<int>(steps.value()); ++step) {
      GPUACTORS_TRY(stream.gemm(x, weights_, guess));
      GPUACTORS_TRY(stream.launch(gpuactors::kernels::mse_gradient<float>(), count, count, guess, y, guess));
      GPUACTORS_TRY(stream.gemm(x, guess, gradient, {.transpose_a = true}));
      // Waits for the other workers; an error when one of them is gone.
      GPUACTORS_TRY(peers().all_reduce(stream, gradient));
      GPUACTORS_TRY(stream.launch(gpuactors::kernels::sgd_step<float>(), 2, 0.1F, gradient, weights_));
    }
    GPUACTORS_LET(now, stream.to_host<float>(weights_));
    Line line;
    line.set_slope(now[0]);
    line.set_intercept(now[1]);
    return line;
  }

private:
  gpuactors::Tensor weights_;
};

GPUACTORS_ACTOR("line_worker", LineWorker).method("learn", &LineWorker::learn);

// Has all workers make so many steps together.
gpuactors::Result<void> learn(const std::vector<gpuactors::ActorRef>& workers, double steps) {
  Number request;
  request.set_value(steps);
  std::vector<gpuactors::Future<Line>> learning;
  for (const auto& worker : workers)
    learning.push_back(worker.call<Line>("learn", request));
  // All of them, also after an error: a call that has not begun yet would begin in the next group. One whose deadline
  // passed may still run after its answer; it takes no part in that group.
  gpuactors::wait(learning, learning.size());
  GPUACTORS_LET(lines, gpuactors::get_all(learning));
  for (const auto& line : lines)
    fmt::print("a worker of {}: y = {:.3f} x + {:.3f}\n", lines.size(), line.slope(), line.intercept());
  return {};
}

gpuactors::Result<void> run(int argc, char** argv) {
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(argc, argv));
  std::vector<gpuactors::ActorRef> workers;
  for (int i = 0; i < 3; ++i) {
    GPUACTORS_LET(worker, cluster.spawn("line_worker", {}, {.gpus = 0.25}));
    workers.push_back(worker);
  }
  GPUACTORS_TRY(gpuactors::form_collective(workers));
  GPUACTORS_TRY(learn(workers, 10));
  GPUACTORS_TRY(cluster.kill(workers.back()));
  workers.pop_back();
  if (const auto learnt = learn(workers, 10); !learnt)
    fmt::print("the group is over: {}\n", gpuactors::to_string(learnt.error().code()));
  GPUACTORS_TRY(gpuactors::form_collective(workers));
  return learn(workers, 400);
}

int main(int argc, char** argv) {
  return gpuactors::main(argc, argv, run);
}
