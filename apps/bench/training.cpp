// Training through an actor, beside the same arithmetic in a plain loop over OpenBLAS.
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

/// The network, its slopes and its momentum, as a program has them that knows neither devices nor actors.
class PlainLoop {
public:
  explicit PlainLoop(const Pictures& pictures)
    : pictures_(pictures), sgemm_(openblas<decltype(cblas_sgemm)>("cblas_sgemm")) {
    openblas<decltype(openblas_set_num_threads)>("openblas_set_num_threads")(1);
    nn::Random random{2};
    for (auto* weights : {&first_, &second_})
      for (auto& weight : weights->values)
        weight = static_cast<float>(0.1 * (2 * random.uniform() - 1));
    std::iota(order_.begin(), order_.end(), 0);
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
  struct Layer {
    Layer(int in, int out)
      : ins(in), outs(out), values(static_cast<std::size_t>((in + 1) * out)), slopes(values.size()),
        velocity(values.size()) {
      // nop
    }

    float* bias(std::vector<float>& of) const {
      return of.data() + ins * outs;
    }

    int ins;
    int outs;
    std::vector<float> values;
    std::vector<float> slopes;
    std::vector<float> velocity;
  };

  double step(int begin, int count) {
    for (int r = 0; r < count; ++r)
      std::copy_n(pictures_.x.data() + order_[static_cast<std::size_t>(begin + r)] * inputs, inputs,
                  x_.data() + r * inputs);
    sgemm_(CblasRowMajor, CblasNoTrans, CblasTrans, count, hidden, inputs, 0.0625F, x_.data(), inputs,
           first_.values.data(), inputs, 0, h_.data(), hidden);
    for (int r = 0; r < count; ++r)
      for (int c = 0; c < hidden; ++c)
        h_[static_cast<std::size_t>(r * hidden + c)] =
            std::max(h_[static_cast<std::size_t>(r * hidden + c)] + first_.bias(first_.values)[c], 0.0F);
    sgemm_(CblasRowMajor, CblasNoTrans, CblasTrans, count, outputs, hidden, 1, h_.data(), hidden, second_.values.data(),
           hidden, 0, y_.data(), outputs);
    const auto loss = softmax(begin, count);
    column_sums(y_.data(), count, outputs, second_.bias(second_.slopes));
    sgemm_(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, hidden, count, 1, y_.data(), outputs, h_.data(), hidden, 0,
           second_.slopes.data(), hidden);
    sgemm_(CblasRowMajor, CblasNoTrans, CblasNoTrans, count, hidden, outputs, 1, y_.data(), outputs,
           second_.values.data(), hidden, 0, g_.data(), hidden);
    for (int i = 0; i < count * hidden; ++i)
      g_[static_cast<std::size_t>(i)] = h_[static_cast<std::size_t>(i)] > 0 ? g_[static_cast<std::size_t>(i)] : 0;
    column_sums(g_.data(), count, hidden, first_.bias(first_.slopes));
    sgemm_(CblasRowMajor, CblasTrans, CblasNoTrans, hidden, inputs, count, 0.0625F, g_.data(), hidden, x_.data(),
           inputs, 0, first_.slopes.data(), inputs);
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

  static void column_sums(const float* x, int count, int columns, float* sums) {
    std::fill_n(sums, columns, 0.0F);
    for (int r = 0; r < count; ++r)
      for (int c = 0; c < columns; ++c)
        sums[c] += x[r * columns + c];
  }

  static void update(Layer& layer) {
    for (std::size_t i = 0; i < layer.values.size(); ++i) {
      layer.velocity[i] = momentum * layer.velocity[i] + layer.slopes[i];
      layer.values[i] -= learning_rate * layer.velocity[i];
    }
  }

  const Pictures& pictures_;
  decltype(&cblas_sgemm) sgemm_;
  Layer first_{inputs, hidden};
  Layer second_{hidden, outputs};
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

// -- ours ----------------------------------------------------------------------------------------

template <class T>
T or_end(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "gpuactors-bench: {}\n", to_string(result.error()));
    std::exit(1);
  }
  return std::move(*result);
}

/// A trainer is made for each measurement; what is measured is its run, from the message to the last event.
double trained_epochs(Cluster& cluster, const train::Plan& plan) {
  auto trainer = or_end(cluster.spawn("trainer", plan, {.gpus = 0.5}));
  const auto outcome = or_end(train::follow(trainer, epochs_measured, {}));
  static_cast<void>(cluster.kill(trainer));
  return 1e3 * outcome.seconds / epochs_measured;
}

Row measure_training(int repeat) {
  auto cluster = or_end(Cluster::embed({.devices = "host:1x1GiB"}));
  const auto pictures = make_pictures();
  const auto x = or_end(cluster.put(pictures.x, {rows, inputs}));
  const auto labels = or_end(cluster.put(pictures.labels, {rows}));
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
  auto row = measure(
      "train_digits_epoch_host", "ms", repeat, [&] { return trained_epochs(cluster, plan); },
      [&] { return plain_epochs(pictures); });
  row.bound = 1.1;
  return row;
}

} // namespace

std::vector<Benchmark> training_benchmarks() {
  return {{"train_digits_epoch_host", measure_training}};
}

} // namespace gpuactors::bench
