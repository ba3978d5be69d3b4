// Training against the same steps in plain loops of float64: layers, losses, optimizers, and the programs T3, T16, T17.
#include "host.hpp"
#include "reference.hpp"

#include <cmath>
#include <limits>
#include <numeric>

namespace nn::test {

using gpuactors::DType;
using gpuactors::Errc;
using gpuactors::Tensor;

namespace {

/// Rows to train on, on the host and on the device.
class Lesson {
public:
  Lesson(gpuactors::Stream& stream, const TrainerSpec& spec, std::int64_t rows, std::uint64_t seed)
    : stream_(stream), spec_(spec), rows_(rows) {
    const auto& network = spec.network;
    const auto count = static_cast<std::size_t>(rows);
    x_ = random_values(count * static_cast<std::size_t>(network.inputs()), seed);
    if (spec.loss == Loss::cross_entropy) {
      for (const auto value : random_values(count, seed + 1, 0, static_cast<double>(network.outputs())))
        targets_.push_back(std::floor(value));
      const std::vector<std::int32_t> labels(targets_.begin(), targets_.end());
      target_tensor_ = must(stream.tensor_from(labels, {rows}));
    } else {
      targets_ = random_values(count * static_cast<std::size_t>(network.outputs()), seed + 1);
      target_tensor_ = upload(stream, network, targets_, {rows, network.outputs()});
    }
    if (network.dtype == DType::f32) // what the device sees
      for (auto* values : {&x_, &targets_})
        for (auto& value : *values)
          value = static_cast<float>(value);
    x_tensor_ = upload(stream, network, x_, {rows, network.inputs()});
    losses_ = must(stream.tensor(network.dtype, {rows}));
  }

  [[nodiscard]] Batch batch() const {
    return {rows_, x_tensor_.raw(), target_tensor_.raw(), nullptr, 0, losses_.raw()};
  }

  /// The mean loss of the last step.
  double loss() {
    const auto losses = download(stream_, losses_);
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(rows_);
  }

  double step(Reference& reference) const {
    return reference.step(x_, targets_);
  }

private:
  gpuactors::Stream& stream_;
  const TrainerSpec& spec_;
  std::int64_t rows_;
  std::vector<double> x_;
  std::vector<double> targets_;
  Tensor x_tensor_;
  Tensor target_tensor_;
  Tensor losses_;
};

/// The worst relative error of the loss before each of `steps` steps, and whether it went down.
double worst_loss(const TrainerSpec& spec, std::int64_t rows, int steps) {
  auto context = open_host();
  auto trainer = must(Trainer::make(context->stream(), spec, 5));
  Reference reference{spec, parameters(trainer.network())};
  Lesson lesson{context->stream(), spec, rows, 11};
  std::vector<double> actual;
  std::vector<double> expected;
  for (int i = 0; i < steps; ++i) {
    must(trainer.step(lesson.batch()));
    actual.push_back(lesson.loss());
    expected.push_back(lesson.step(reference));
  }
  CHECK(expected.back() < expected.front());
  CHECK(trainer.steps() == static_cast<std::uint64_t>(steps));
  return worst_error(actual, expected);
}

TrainerSpec linear(std::int64_t inputs, std::int64_t outputs, Optimizer optimizer, DType dtype, std::int64_t rows) {
  return {{{inputs, outputs}, Activation::identity, dtype, 1, rows}, Loss::mean_squared_error, optimizer};
}

} // namespace

TEST_CASE("T3, T16 and T17 have the losses of float64, step by step", "[nn]") {
  const Optimizer adam{.kind = OptimizerKind::adam, .rate = 0.01};
  for (const auto dtype : {DType::f32, DType::f64}) {
    const bool narrow = dtype == DType::f32;
    const auto bound = narrow ? 1e-5 : 1e-9;
    const auto steps = narrow ? 100 : 1000;
    for (const auto inputs : {100, 200, 300})
      CHECK(worst_loss(linear(inputs, 1, {.rate = 0.01}, dtype, 100), 100, 10) < bound);
    CHECK(worst_loss(linear(10, 2, adam, dtype, 100), 100, steps) < bound);
    CHECK(worst_loss(linear(10, 1, {.rate = 1e-4}, dtype, 64), 64, steps) < bound);
  }
}

TEST_CASE("every optimizer trains deep networks as plain loops do", "[nn]") {
  const std::vector<Optimizer> optimizers{
      {.rate = 0.1},
      {.rate = 0.05, .weight_decay = 0.01, .momentum = 0.9},
      {.kind = OptimizerKind::adam, .rate = 0.01},
      {.kind = OptimizerKind::adam, .rate = 0.01, .weight_decay = 0.1, .beta1 = 0.8},
  };
  for (const auto& optimizer : optimizers)
    for (const auto hidden : {Activation::relu, Activation::tanh})
      for (const auto loss : {Loss::cross_entropy, Loss::mean_squared_error}) {
        const NetworkSpec network{{6, 70, 8, 4}, hidden, DType::f64, 0.5, 21};
        CHECK(worst_loss({network, loss, optimizer}, 21, 40) < 1e-9);
      }
}

TEST_CASE("rows are taken in the order that is given, and shared batches add up", "[nn]") {
  auto context = open_host();
  auto& stream = context->stream();
  const TrainerSpec spec{{{5, 9, 3}, Activation::tanh, DType::f64, 1, 12}, Loss::cross_entropy, {}};
  auto trainer = must(Trainer::make(stream, spec, 5));
  Lesson lesson{stream, spec, 12, 3};
  const std::vector<std::int32_t> order{11, 0, 10, 1, 9, 2, 8, 3, 7, 4, 6, 5};
  const auto on_device = must(stream.tensor_from(order, {12}));
  const auto* rows = static_cast<const std::int32_t*>(on_device.raw());

  must(trainer.compute_gradient(lesson.batch()));
  const auto whole = download(stream, trainer.gradient());
  auto ordered = lesson.batch();
  ordered.order = rows;
  must(trainer.compute_gradient(ordered));
  CHECK(worst_error(download(stream, trainer.gradient()), whole, 1e-3) < 1e-12);

  // Two members with 5 and 7 rows of it.
  ordered.total_rows = 12;
  ordered.rows = 5;
  must(trainer.compute_gradient(ordered));
  auto sum = download(stream, trainer.gradient());
  ordered.rows = 7;
  ordered.order = rows + 5;
  must(trainer.compute_gradient(ordered));
  const auto rest = download(stream, trainer.gradient());
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] += rest[i];
  CHECK(worst_error(sum, whole, 1e-3) < 1e-12);
  must(trainer.clear_gradient());
  CHECK(worst_error(download(stream, trainer.gradient()), std::vector<double>(sum.size()), 1) == 0);
}

TEST_CASE("a label that the network does not know is no loss and no gradient, and touches nothing else", "[nn]") {
  auto context = open_host();
  auto& stream = context->stream();
  for (const auto dtype : {DType::f32, DType::f64}) {
    const TrainerSpec spec{{{2, 3}, Activation::relu, dtype, 1, 2}, Loss::cross_entropy, {}};
    auto trainer = must(Trainer::make(stream, spec, 5));
    const auto x = upload(stream, spec.network, {1, 2, 3, 4}, {2, 2});
    auto losses = must(stream.tensor(dtype, {2}));
    const auto learn_from = [&](std::int32_t first, std::int32_t second) {
      const auto labels = must(stream.tensor_from(std::vector<std::int32_t>{first, second}, {2}));
      must(trainer.compute_gradient({2, x.raw(), labels.raw(), nullptr, 0, losses.raw()}));
      must(stream.synchronize()); // before the labels go
    };
    for (const std::int32_t none : {3, -1}) {
      learn_from(2, none);
      CHECK(std::isfinite(download(stream, losses)[0]));
      CHECK(std::isnan(download(stream, losses)[1]));
      const auto gradient = download(stream, trainer.gradient());
      for (const auto& parameter : trainer.network().parameters())
        for (std::size_t i = 0; i < parameter.size; ++i)
          CHECK(std::isnan(gradient[parameter.offset + i]));
      // What lies between two parameters is none.
      CHECK(gradient[6] == 0);
    }
    learn_from(2, 0);
    for (const auto value : download(stream, trainer.gradient()))
      CHECK(std::isfinite(value));
  }
}

TEST_CASE("Adam corrects its moments for the betas that it has, whatever they round to", "[nn]") {
  auto context = open_host();
  auto& stream = context->stream();
  for (const auto dtype : {DType::f32, DType::f64}) {
    // So large that a step is what is left of a parameter.
    constexpr double rate = 1024;
    const TrainerSpec spec{{{1, 1}, Activation::identity, dtype, 1, 1},
                           Loss::mean_squared_error,
                           {.kind = OptimizerKind::adam, .rate = rate, .epsilon = 1e-30}};
    auto trainer = must(Trainer::make(stream, spec, 5));
    const auto x = upload(stream, spec.network, {1}, {1, 1});
    const auto target = upload(stream, spec.network, {100}, {1, 1});
    auto losses = must(stream.tensor(dtype, {1}));
    const auto before = parameters(trainer.network());
    must(trainer.step({1, x.raw(), target.raw(), nullptr, 0, losses.raw()}));
    const auto after = parameters(trainer.network());
    // The first step of Adam is as long as the rate, whatever the gradient.
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(std::abs((after[i] - before[i]) / rate - 1) < 1e-6);
  }
}

TEST_CASE("steps allocate nothing", "[nn]") {
  auto context = open_host();
  const TrainerSpec spec{{{6, 20, 4}, Activation::relu, DType::f32, 1, 8}, Loss::cross_entropy, {}};
  auto trainer = must(Trainer::make(context->stream(), spec, 5));
  Lesson lesson{context->stream(), spec, 8, 3};
  must(context->stream().synchronize());
  const auto used = context->memory_used();
  for (int i = 0; i < 10; ++i)
    must(trainer.step(lesson.batch()));
  must(context->stream().synchronize());
  CHECK(context->memory_used() == used);
  CHECK(context->memory_peak() == used);
}

TEST_CASE("a parameter without a gradient keeps its value under Adam, with the smallest epsilon too", "[nn]") {
  auto context = open_host();
  auto& stream = context->stream();
  const double least = std::numeric_limits<float>::min();
  const TrainerSpec spec{{{2, 1}, Activation::relu, DType::f32, 1, 1},
                         Loss::mean_squared_error,
                         {.kind = OptimizerKind::adam, .epsilon = least}};
  auto trainer = must(Trainer::make(stream, spec, 5));
  const auto before = parameters(trainer.network());
  const auto x = upload(stream, spec.network, {0, 0}, {1, 2}); // which no weight has a part in
  const auto target = upload(stream, spec.network, {1}, {1, 1});
  auto losses = must(stream.tensor(DType::f32, {1}));
  must(trainer.step({1, x.raw(), target.raw(), nullptr, 0, losses.raw()}));
  const auto after = parameters(trainer.network());
  CHECK(after[0] == before[0]);
  CHECK(after[1] == before[1]);
  CHECK(after[2] != before[2]);
  auto smaller = spec;
  smaller.optimizer.epsilon = 1e-50;
  CHECK(says(Trainer::make(stream, smaller, 5), "the epsilon of Adam"));
}

TEST_CASE("numbers that no optimizer can use are refused by name", "[nn]") {
  const auto refused = [](Optimizer optimizer, DType dtype = DType::f64) {
    const auto result = check(optimizer, dtype);
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == Errc::invalid_argument);
    return result.error();
  };
  CHECK(says(refused({.rate = 0}), "the rate of learning is above 0"));
  CHECK(says(refused({.rate = std::numeric_limits<double>::quiet_NaN()}), "not nan"));
  CHECK(says(refused({.momentum = 1}), "the momentum is at least 0 and below 1, not 1"));
  CHECK(says(refused({.weight_decay = -1}), "the decay of weights is at least 0, not -1"));
  CHECK(says(refused({.beta2 = 1.5}), "a beta of Adam is at least 0 and below 1, not 1.5"));
  CHECK(says(refused({.epsilon = 0}), "the epsilon of Adam is at least 2.2250738585072014e-308 and below 1, not 0"));
  // What rounds to such a number where the network computes.
  const auto narrow = DType::f32;
  CHECK(says(refused({.rate = 1e-50}, narrow), "the rate of learning is above 0 and below 1000000 in f32, not 1e-50"));
  CHECK(says(refused({.beta2 = 1 - 1e-12}, narrow), "a beta of Adam is at least 0 and below 1 in f32"));
  CHECK(says(refused({.epsilon = 1e-50}, narrow), "the epsilon of Adam is at least 1.1754943508222875e-38"));
  CHECK(check({.rate = 1e-50, .beta2 = 1 - 1e-12, .epsilon = 1e-50}, DType::f64));
}

} // namespace nn::test
