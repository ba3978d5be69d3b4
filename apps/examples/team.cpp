// Several workers train one model, and one of them is lost on the way: it is started anew in its place, and all go on
// from what they have reported last. Those that were not lost keep their process and their memory on the device.
#include "examples.pb.h"

#include <gpuactors/collective/team.hpp>
#include <gpuactors/gpuactors.hpp>
#include <gpuactors/kernels/matrix.hpp>
#include <gpuactors/kernels/training.hpp>

#include <fmt/format.h>

#include <utility>

using examples::Learnt;

inline constexpr gpuactors::ActorKind team_worker{"team_worker"};
inline constexpr gpuactors::StreamMethod<Learnt, Learnt> learn{"learn"};
constexpr int all_steps = 400;

// Learns the line y = 2 x - 1 from its part of the points: (x, 1) * (slope, intercept) should be y.
class TeamWorker : public gpuactors::WithPeers<gpuactors::FractionalGPUActor> {
public:
  using WithPeers::WithPeers;

  gpuactors::Result<void> learn_from(const Learnt& begin, gpuactors::ReplyStream<Learnt>& reports) {
    auto& stream = gpu().stream();
    std::vector<float> points, values;
    for (auto i = static_cast<int>(peers().rank()); i <= 24; i += static_cast<int>(peers().size())) {
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
    GPUACTORS_LET(weights, stream.tensor_from(std::vector<float>{begin.slope(), begin.intercept()}, {2, 1}));
    for (auto step = begin.steps() + 1; step <= all_steps; ++step) {
      GPUACTORS_TRY(stream.gemm(x, weights, guess));
      GPUACTORS_TRY(stream.launch(gpuactors::kernels::mse_gradient<float>(), count, count, guess, y, guess));
      GPUACTORS_TRY(stream.gemm(x, guess, gradient, {.transpose_a = true}));
      // Waits for the other workers; an error when one of them is lost.
      GPUACTORS_TRY(peers().all_reduce(stream, gradient));
      GPUACTORS_TRY(stream.launch(gpuactors::kernels::sgd_step<float>(), 2, 0.1F, gradient, weights));
      // All that is needed to go on from here. What is larger goes into a file, and its name into the report.
      GPUACTORS_LET(now, stream.to_host<float>(weights));
      Learnt report;
      report.set_steps(step);
      report.set_slope(now[0]);
      report.set_intercept(now[1]);
      GPUACTORS_TRY(reports.write(report));
    }
    return {};
  }
};

GPUACTORS_ACTOR(team_worker, TeamWorker).method(learn, &TeamWorker::learn_from);

gpuactors::Result<void> run(int argc, char** argv) {
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(argc, argv));
  const gpuactors::TeamMember<> quarter{{}, {.gpus = 0.25}};
  gpuactors::Team team{cluster, team_worker, {quarter, quarter, quarter}, {.max_failures = 3}};
  gpuactors::TeamCall<Learnt> call;
  call.on_reports = [&, lost = false](const std::vector<Learnt>& reports) mutable {
    // What a fault of its process or device would do.
    if (reports[0].steps() == 100 && !std::exchange(lost, true))
      static_cast<void>(cluster.kill(team.members()[1]));
  };
  call.on_failure = [](const gpuactors::TeamFailure& failure) {
    fmt::print("attempt {} after {}, with a new worker {}\n", failure.attempt,
               gpuactors::to_string(failure.error.code()), fmt::join(failure.replaced, " "));
  };
  const auto request = [](const gpuactors::TeamPart<Learnt>& part) {
    return part.reports.empty() ? Learnt{} : part.reports[part.rank];
  };
  GPUACTORS_LET(learnt, team.run(learn, request, call));
  for (const auto& line : learnt)
    fmt::print("after {} steps: y = {:.3f} x + {:.3f}\n", line.steps(), line.slope(), line.intercept());
  return {};
}

int main(int argc, char** argv) {
  return gpuactors::main(argc, argv, run);
}
