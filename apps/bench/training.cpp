// Training through an actor, beside the same arithmetic in a plain loop over OpenBLAS.
#include "floor.hpp"
#include "openblas.hpp"
#include "rows.hpp"

#include <gpuactors/gpuactors.hpp>

#include <apps/nn/random.hpp>
#include <apps/train/session.hpp>

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace gpuactors::bench {

namespace {

// The hand-written digits of docs/guide/training.md, in numbers: 80 % of 1797 rows.
constexpr int rows = 1437;
constexpr int inputs = 64;
constexpr int hidden = 128;
constexpr int outputs = 10;
constexpr int batch_rows = 64;
constexpr int epochs_measured = 60;
constexpr int steps_measured = 2'000;
constexpr float learning_rate = 0.1F;
constexpr float momentum = 0.9F;

/// Pictures of noise: what is in them costs nothing and saves nothing.
struct Pictures {
  std::vector<float> x;
  std::vector<std::int32_t> labels;
};

Pictures make_pictures() {
  nn::Random random{1};
  Pictures pictures;
  for (int i = 0; i < rows * inputs; ++i)
    pictures.x.push_back(static_cast<float>(random.below(17)));
  for (int i = 0; i < rows; ++i)
    pictures.labels.push_back(i % outputs);
  return pictures;
}

// -- the floor -----------------------------------------------------------------------------------

/// The network, its gradients and its momentum, as a program has them that knows neither devices nor actors.
class PlainLoop {
public:
  explicit PlainLoop(const Pictures& pictures)
    : pictures_(pictures), sgemm_(openblas<decltype(cblas_sgemm)>("cblas_sgemm")) {
    openblas<decltype(openblas_set_num_threads)>("openblas_set_num_threads")(1);
    nn::Random random{2};
    for (auto* values : {&first_.values, &second_.values})
      for (auto& weight : *values)
        weight = static_cast<float>(0.1 * (2 * random.uniform() - 1));
    std::iota(order_.begin(), order_.end(), 0);
  }

  /// One step on the first rows.
  double first_step() {
    return step(0, batch_rows);
  }

  double epoch() {
    nn::Random random{3, epochs_++};
    nn::shuffle(order_, random);
    double loss = 0;
    for (int begin = 0; begin < rows; begin += batch_rows)
      loss += step(begin, std::min(batch_rows, rows - begin));
    return loss;
  }

private:
  /// Weights, and the bias behind them. Sizes are constants, here and below, so that compilers can do their best.
  template <int ins, int outs>
  struct Layer {
    static constexpr std::size_t size = (ins + 1) * outs;

    static float* bias(std::vector<float>& of) {
      return of.data() + ins * outs;
    }

    std::vector<float> values = std::vector<float>(size);
    std::vector<float> gradients = std::vector<float>(size);
    std::vector<float> velocity = std::vector<float>(size);
  };

  double step(int begin, int count) {
    for (int r = 0; r < count; ++r)
      std::copy_n(pictures_.x.data() + order_[static_cast<std::size_t>(begin + r)] * inputs, inputs,
                  x_.data() + r * inputs);
    sgemm_(CblasRowMajor, CblasNoTrans, CblasTrans, count, hidden, inputs, 0.0625F, x_.data(), inputs,
           first_.values.data(), inputs, 0, h_.data(), hidden);
    bias_relu<hidden>(h_.data(), count, first_.bias(first_.values));
    sgemm_(CblasRowMajor, CblasNoTrans, CblasTrans, count, outputs, hidden, 1, h_.data(), hidden, second_.values.data(),
           hidden, 0, y_.data(), outputs);
    const auto loss = softmax(begin, count);
    column_sums<outputs>(y_.data(), count, second_.bias(second_.gradients));
    sgemm_(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, hidden, count, 1, y_.data(), outputs, h_.data(), hidden, 0,
           second_.gradients.data(), hidden);
    sgemm_(CblasRowMajor, CblasNoTrans, CblasNoTrans, count, hidden, outputs, 1, y_.data(), outputs,
           second_.values.data(), hidden, 0, g_.data(), hidden);
    relu_backward<hidden>(h_.data(), count, g_.data(), first_.bias(first_.gradients));
    sgemm_(CblasRowMajor, CblasTrans, CblasNoTrans, hidden, inputs, count, 0.0625F, g_.data(), hidden, x_.data(),
           inputs, 0, first_.gradients.data(), inputs);
    update(first_);
    update(second_);
    return loss;
  }

  double softmax(int begin, int count) {
    double loss = 0;
    for (int r = 0; r < count; ++r) {
      float* out = y_.data() + r * outputs;
      for (int c = 0; c < outputs; ++c)
        out[c] += second_.bias(second_.values)[c];
      const auto most = *std::max_element(out, out + outputs);
      const auto label = pictures_.labels[static_cast<std::size_t>(order_[static_cast<std::size_t>(begin + r)])];
      const auto wanted = out[label] - most;
      float sum = 0;
      for (int c = 0; c < outputs; ++c)
        sum += out[c] = std::exp(out[c] - most);
      for (int c = 0; c < outputs; ++c)
        out[c] *= 1 / (sum * static_cast<float>(count));
      out[label] -= 1 / static_cast<float>(count);
      loss += std::log(sum) - wanted;
    }
    return loss / count;
  }

  template <int columns>
  static void bias_relu(float* __restrict__ x, int count, const float* __restrict__ bias) {
    for (int r = 0; r < count; ++r, x += columns)
      for (int c = 0; c < columns; ++c)
        x[c] = std::max(x[c] + bias[c], 0.0F);
  }

  template <int columns>
  static void relu_backward(const float* __restrict__ y, int count, float* __restrict__ gradients,
                            float* __restrict__ sums) {
    std::fill_n(sums, columns, 0.0F);
    for (int r = 0; r < count; ++r, y += columns, gradients += columns)
      for (int c = 0; c < columns; ++c) {
        gradients[c] = y[c] > 0 ? gradients[c] : 0;
        sums[c] += gradients[c];
      }
  }

  template <int columns>
  static void column_sums(const float* __restrict__ x, int count, float* __restrict__ sums) {
    std::fill_n(sums, columns, 0.0F);
    for (int r = 0; r < count; ++r, x += columns)
      for (int c = 0; c < columns; ++c)
        sums[c] += x[c];
  }

  template <std::size_t size>
  static void follow(const float* __restrict__ gradients, float* __restrict__ velocity, float* __restrict__ values) {
    for (std::size_t i = 0; i < size; ++i) {
      velocity[i] = momentum * velocity[i] + gradients[i];
      values[i] -= learning_rate * velocity[i];
    }
  }

  template <class AnyLayer>
  static void update(AnyLayer& layer) {
    follow<AnyLayer::size>(layer.gradients.data(), layer.velocity.data(), layer.values.data());
  }

  const Pictures& pictures_;
  decltype(&cblas_sgemm) sgemm_;
  Layer<inputs, hidden> first_;
  Layer<hidden, outputs> second_;
  std::vector<std::int32_t> order_ = std::vector<std::int32_t>(rows);
  std::vector<float> x_ = std::vector<float>(batch_rows * inputs);
  std::vector<float> h_ = std::vector<float>(batch_rows * hidden);
  std::vector<float> y_ = std::vector<float>(batch_rows * outputs);
  std::vector<float> g_ = std::vector<float>(batch_rows * hidden);
  std::uint64_t epochs_ = 0;
};

double plain_epochs(const Pictures& pictures) {
  PlainLoop loop{pictures};
  const auto begin = now_ns();
  double loss = 0;
  for (int i = 0; i < epochs_measured; ++i)
    loss = loop.epoch();
  const auto seconds = (now_ns() - begin) * 1e-9;
  if (!std::isfinite(loss))
    std::exit(1); // and the loop cannot be left out
  return 1e3 * seconds / epochs_measured;
}

/// Microseconds of a step, and of 1.3 requests between plain CAF actors beside it.
double plain_step(Cluster& cluster, const Pictures& pictures) {
  PlainLoop loop{pictures};
  const LocalFloor plain{cluster};
  constexpr double requests_allowed = 1.3;
  double loss = 0;
  const auto begin = now_ns();
  for (int i = 0; i < steps_measured; ++i)
    loss += loop.first_step();
  const auto step_us = (now_ns() - begin) * 1e-3 / steps_measured;
  if (!std::isfinite(loss))
    std::exit(1);
  return step_us + requests_allowed * plain.ask(steps_measured, 1);
}

// -- ours ----------------------------------------------------------------------------------------

/// A trainer is made for each measurement; what is measured is its run, from the message to the last event.
double trained_epochs(Cluster& cluster, const train::Plan& plan) {
  auto trainer = check(cluster.spawn("trainer", plan, {.gpus = 0.5}));
  const auto outcome = check(train::follow(trainer, epochs_measured, {}));
  static_cast<void>(cluster.kill(trainer));
  return 1e3 * outcome.seconds / epochs_measured;
}

/// Microseconds from the message with the rows to the loss, one after the other.
double trained_step(Cluster& cluster, const train::Plan& plan, const Pictures& pictures) {
  auto trainer = check(cluster.spawn("trainer", plan, {.gpus = 0.5}));
  train::Rows first;
  first.mutable_features()->Add(pictures.x.begin(), pictures.x.begin() + batch_rows * inputs);
  first.mutable_labels()->Add(pictures.labels.begin(), pictures.labels.begin() + batch_rows);
  const auto begin = now_ns();
  for (int i = 0; i < steps_measured; ++i)
    check(trainer.call<train::Loss>("step", first).get());
  const auto taken = now_ns() - begin;
  static_cast<void>(cluster.kill(trainer));
  return taken * 1e-3 / steps_measured;
}

/// A cluster, data in it, and a plan to learn them.
struct Lesson {
  Cluster cluster = check(Cluster::embed({.devices = "host:1x1GiB"}));
  Pictures pictures = make_pictures();
  Shared<Tensor> x = check(cluster.put(pictures.x, {rows, inputs}));
  Shared<Tensor> labels = check(cluster.put(pictures.labels, {rows}));
  train::Plan plan = make_plan();

  train::Plan make_plan() const;
};

train::Plan Lesson::make_plan() const {
  train::Plan plan;
  for (const auto size : {inputs, hidden, outputs})
    plan.add_sizes(size);
  plan.set_activation("relu");
  plan.set_optimizer("sgd");
  plan.set_rate(learning_rate);
  plan.set_momentum(momentum);
  plan.set_input_scale(0.0625);
  plan.set_batch(batch_rows);
  *plan.mutable_features() = x.ref();
  *plan.mutable_labels() = labels.ref();
  return plan;
}

Row measure_epochs(int repeat) {
  Lesson lesson;
  auto row = measure(
      "train_digits_epoch_host", "ms", repeat, [&] { return trained_epochs(lesson.cluster, lesson.plan); },
      [&] { return plain_epochs(lesson.pictures); });
  row.bound = 1.1;
  return row;
}

/// The floor has what is allowed beside the arithmetic in it already.
Row measure_steps(int repeat) {
  Lesson lesson;
  auto row = measure(
      "train_step_lone_host", "us", repeat, [&] { return trained_step(lesson.cluster, lesson.plan, lesson.pictures); },
      [&] { return plain_step(lesson.cluster, lesson.pictures); });
  row.bound = 1;
  return row;
}

} // namespace

std::vector<Benchmark> training_benchmarks() {
  return {{"train_digits_epoch_host", measure_epochs}, {"train_step_lone_host", measure_steps}};
}

} // namespace gpuactors::bench
