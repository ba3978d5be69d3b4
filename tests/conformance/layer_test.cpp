// Kernels for whole layers: the same numbers however the columns and elements are cut, on every device.
#include <gpuactors/kernels/activation.hpp>
#include <gpuactors/kernels/layers.hpp>
#include <gpuactors/kernels/loss.hpp>
#include <gpuactors/kernels/optimizer.hpp>

#include <conformance/candidates.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::conformance;
namespace k = gpuactors::kernels;

namespace {

constexpr std::uint64_t layer_rows = 7;
constexpr std::uint64_t layer_columns = 19;

/// Numbers between -1 and 1 that repeat late.
template <class T>
std::vector<T> wave(std::size_t count, double phase) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(std::sin(phase + 0.7 * static_cast<double>(i)));
  return values;
}

template <class T>
double worst(const std::vector<T>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double result = 0;
  for (std::size_t i = 0; i < actual.size(); ++i)
    result = std::max(result, std::abs(static_cast<double>(actual[i]) - expected[i]));
  return result / static_cast<double>(std::numeric_limits<T>::epsilon());
}

/// A matrix, a bias and a second matrix on a device, and what should become of the first one.
template <class T>
struct Layer {
  explicit Layer(Stream& on) : stream(on) {
    const auto r = static_cast<std::int64_t>(layer_rows);
    const auto c = static_cast<std::int64_t>(layer_columns);
    x = *stream.tensor_from(x0, {r, c});
    y = *stream.tensor_from(y0, {r, c});
    bias = *stream.tensor_from(bias0, {c});
    sums = *stream.tensor(dtype_of<T>, {c});
  }

  template <class F>
  std::vector<double> each(F f) const {
    std::vector<double> result;
    for (std::size_t i = 0; i < x0.size(); ++i)
      result.push_back(
          f(static_cast<double>(x0[i]), static_cast<double>(y0[i]), static_cast<double>(bias0[i % layer_columns])));
    return result;
  }

  static std::vector<double> column_sums(const std::vector<double>& values) {
    std::vector<double> result(layer_columns);
    for (std::size_t i = 0; i < values.size(); ++i)
      result[i % layer_columns] += values[i];
    return result;
  }

  Stream& stream;
  std::vector<T> x0 = wave<T>(layer_rows * layer_columns, 0);
  std::vector<T> y0 = wave<T>(layer_rows * layer_columns, 1);
  std::vector<T> bias0 = wave<T>(layer_columns, 2);
  Tensor x;
  Tensor y;
  Tensor bias;
  Tensor sums;
};

/// A layer whose matrices have one element that is no number.
template <class T>
struct Flawed : Layer<T> {
  static constexpr std::uint64_t row = 2;

  Flawed(Stream& on, std::uint64_t column) : Layer<T>(on), flaw(row * layer_columns + column) {
    this->x0[flaw] = std::numeric_limits<T>::quiet_NaN();
  }

  Tensor make() const {
    return *this->stream.tensor_from(this->x0, this->x.shape());
  }

  /// Where a tensor has no numbers.
  std::vector<std::uint64_t> no_numbers(const Tensor& tensor) const {
    const auto values = *this->stream.template to_host<T>(tensor);
    std::vector<std::uint64_t> result;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::isnan(values[i]))
        result.push_back(i);
    return result;
  }

  bool only_the_flaw(const Tensor& tensor) const {
    return no_numbers(tensor) == std::vector<std::uint64_t>{flaw};
  }

  std::uint64_t flaw;
};

} // namespace

TEMPLATE_TEST_CASE("layers go forward and back in tiles of any length", "", float, double) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    for (const std::uint64_t tile : {1, 4, 19, 64}) {
      const auto tiling = k::Tiling::of(layer_columns, tile);
      const auto n = layer_rows * tiling.tiles;
      const auto forward = [&](const auto& kernel, const auto& expected) {
        Layer<T> layer{stream};
        REQUIRE(stream.launch(kernel, n, tiling, layer.bias.template data<T>(), layer.x.template data<T>()));
        CHECK(worst(*stream.to_host<T>(layer.x), layer.each(expected)) < 8);
      };
      forward(k::bias_rows<T>(), [](double x, double, double b) { return x + b; });
      forward(k::bias_relu<T>(), [](double x, double, double b) { return std::max(x + b, 0.0); });
      forward(k::bias_tanh<T>(), [](double x, double, double b) { return std::tanh(x + b); });

      const auto back = [&](const auto& kernel, const auto& expected) {
        Layer<T> layer{stream};
        REQUIRE(stream.launch(kernel, tiling.tiles, layer_rows, tiling, layer.y.template data<T>(),
                              layer.x.template data<T>(), layer.sums.template data<T>()));
        const auto slopes = layer.each(expected);
        CHECK(worst(*stream.to_host<T>(layer.x), slopes) < 8);
        CHECK(worst(*stream.to_host<T>(layer.sums), Layer<T>::column_sums(slopes)) < 64);
      };
      back(k::bias_relu_backward<T>(), [](double x, double y, double) { return y > 0 ? x : 0; });
      back(k::bias_tanh_backward<T>(), [](double x, double y, double) { return x * (1 - y * y); });

      Layer<T> layer{stream};
      REQUIRE(stream.launch(k::bias_gradient<T>(), tiling.tiles, layer_rows, tiling, layer.x.template data<T>(),
                            layer.sums.template data<T>()));
      const auto same = layer.each([](double x, double, double) { return x; });
      CHECK(worst(*stream.to_host<T>(layer.sums), Layer<T>::column_sums(same)) < 64);

      const std::vector<std::int32_t> order{6, 0, 5, 5, 1};
      const auto on_device = *stream.tensor_from(order, {5});
      REQUIRE(stream.launch(k::gather_rows<T>(), 5 * tiling.tiles, tiling,
                            static_cast<const std::int32_t*>(on_device.raw()), layer.x.template data<T>(),
                            layer.y.template data<T>()));
      const auto gathered = *stream.to_host<T>(layer.y);
      for (std::size_t i = 0; i < order.size() * layer_columns; ++i)
        CHECK(gathered[i]
              == layer.x0[static_cast<std::size_t>(order[i / layer_columns]) * layer_columns + i % layer_columns]);
    }
  }
}

TEMPLATE_TEST_CASE("layers do not hide what is no number", "", float, double) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const auto tiling = k::Tiling::of(layer_columns, 4);
    for (const std::uint64_t column : {0, 7}) {
      Flawed<T> layer{stream, column};
      for (const auto& kernel : {k::bias_rows<T>(), k::bias_relu<T>(), k::bias_tanh<T>()}) {
        const auto x = layer.make();
        REQUIRE(stream.launch(kernel, layer_rows * tiling.tiles, tiling, layer.bias.template data<T>(),
                              x.template data<T>()));
        CHECK(layer.only_the_flaw(x));
      }
      // Where the output is none, so is the slope.
      for (const auto& kernel : {k::bias_relu_backward<T>(), k::bias_tanh_backward<T>()}) {
        const auto dy = layer.make();
        const auto y = layer.make();
        REQUIRE(stream.launch(kernel, tiling.tiles, layer_rows, tiling, y.template data<T>(), dy.template data<T>(),
                              layer.sums.template data<T>()));
        CHECK(layer.only_the_flaw(dy));
        CHECK(layer.no_numbers(layer.sums) == std::vector<std::uint64_t>{column});
      }
      const auto x = layer.make();
      const auto y = *stream.tensor(x.dtype(), x.shape());
      const auto dx = *stream.tensor(x.dtype(), x.shape());
      const auto n = layer_rows * layer_columns;
      REQUIRE(stream.launch(k::relu<T>(), n, x.template data<T>(), y.template data<T>()));
      CHECK(layer.only_the_flaw(y));
      REQUIRE(
          stream.launch(k::relu_backward<T>(), n, y.template data<T>(), x.template data<T>(), dx.template data<T>()));
      CHECK(layer.only_the_flaw(dx));
    }
  }
}

TEMPLATE_TEST_CASE("losses do not hide what is no number", "", float, double) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    for (const std::uint64_t column : {0, 7}) {
      Flawed<T> layer{stream, column};
      const auto labels = *stream.tensor_from(std::vector<std::int32_t>(layer_rows, 3), {layer_rows});
      const auto losses = *stream.tensor(dtype_of<T>, {layer_rows});
      const std::vector<std::uint64_t> flawed_row{Flawed<T>::row};
      const auto logits = layer.make();
      REQUIRE(stream.launch(k::softmax_cross_entropy<T>(), layer_rows, layer_columns, T{1}, nullptr,
                            static_cast<const std::int32_t*>(labels.raw()), layer.bias.template data<T>(),
                            logits.template data<T>(), losses.template data<T>()));
      CHECK(layer.no_numbers(losses) == flawed_row);
      CHECK(layer.no_numbers(logits).size() == layer_columns); // all slopes of its row
      const auto outputs = layer.make();
      REQUIRE(stream.launch(k::squared_error_rows<T>(), layer_rows, layer_columns, T{1}, nullptr,
                            layer.y.template data<T>(), layer.bias.template data<T>(), outputs.template data<T>(),
                            losses.template data<T>()));
      CHECK(layer.no_numbers(losses) == flawed_row);
      CHECK(layer.only_the_flaw(outputs));
    }
  }
}

TEMPLATE_TEST_CASE("losses and their slopes agree with float64, in any order of rows", "", float, double) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const std::vector<std::int32_t> order{3, 1, 6, 0, 2, 5, 4};
    const std::vector<std::int32_t> labels{0, 18, 3, 7, 9, 1, 2};
    const auto rows = *stream.tensor_from(order, {7});
    const auto classes = *stream.tensor_from(labels, {7});
    const auto losses = *stream.tensor(dtype_of<T>, {7});
    const auto* order_on_device = static_cast<const std::int32_t*>(rows.raw());
    Layer<T> layer{stream};
    const auto outputs = layer.each([](double x, double, double b) { return x + b; });

    REQUIRE(stream.launch(k::softmax_cross_entropy<T>(), layer_rows, layer_columns, T(0.25), order_on_device,
                          static_cast<const std::int32_t*>(classes.raw()), layer.bias.template data<T>(),
                          layer.x.template data<T>(), losses.template data<T>()));
    std::vector<double> expected(layer_rows);
    auto slopes = outputs;
    for (std::size_t row = 0; row < layer_rows; ++row) {
      auto* out = slopes.data() + row * layer_columns;
      const auto label = static_cast<std::size_t>(labels[static_cast<std::size_t>(order[row])]);
      double sum = 0;
      for (std::size_t c = 0; c < layer_columns; ++c)
        sum += std::exp(out[c]);
      expected[row] = std::log(sum) - out[label];
      for (std::size_t c = 0; c < layer_columns; ++c)
        out[c] = 0.25 * (std::exp(out[c]) / sum - (c == label ? 1 : 0));
    }
    CHECK(worst(*stream.to_host<T>(losses), expected) < 32);
    CHECK(worst(*stream.to_host<T>(layer.x), slopes) < 8);

    Layer<T> other{stream};
    REQUIRE(stream.launch(k::squared_error_rows<T>(), layer_rows, layer_columns, T(0.5), order_on_device,
                          other.y.template data<T>(), other.bias.template data<T>(), other.x.template data<T>(),
                          losses.template data<T>()));
    for (std::size_t row = 0; row < layer_rows; ++row) {
      expected[row] = 0;
      for (std::size_t c = 0; c < layer_columns; ++c) {
        const auto target = static_cast<double>(other.y0[static_cast<std::size_t>(order[row]) * layer_columns + c]);
        const auto difference = outputs[row * layer_columns + c] - target;
        expected[row] += difference * difference / static_cast<double>(layer_columns);
        slopes[row * layer_columns + c] = difference;
      }
    }
    CHECK(worst(*stream.to_host<T>(losses), expected) < 32);
    CHECK(worst(*stream.to_host<T>(other.x), slopes) < 8);
  }
}

TEMPLATE_TEST_CASE("updates of chunks of any length are those of single elements", "", float, double) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    constexpr std::uint64_t n = layer_rows * layer_columns;
    for (const std::uint64_t chunk : {1, 10, 1000}) {
      const auto chunks = (n + chunk - 1) / chunk;
      const k::SgdParameters<T> sgd{T(0.5), T(0.25), T(0.125)};
      Layer<T> layer{stream};
      REQUIRE(stream.launch(k::sgd_update<T>(), chunks, n, chunk, sgd, layer.y.template data<T>(),
                            layer.x.template data<T>()));
      CHECK(worst(*stream.to_host<T>(layer.x),
                  layer.each([](double x, double y, double) { return x - 0.5 * (y + 0.125 * x); }))
            < 8);

      Layer<T> heavy{stream};
      const auto memory = *stream.tensor_from(std::vector<T>(n, T{1}), {static_cast<std::int64_t>(n)});
      REQUIRE(stream.launch(k::momentum_update<T>(), chunks, n, chunk, sgd, heavy.y.template data<T>(),
                            memory.template data<T>(), heavy.x.template data<T>()));
      CHECK(
          worst(*stream.to_host<T>(memory), heavy.each([](double x, double y, double) { return 0.25 + y + 0.125 * x; }))
          < 8);

      Layer<T> adam{stream};
      k::AdamParameters<T> parameters;
      parameters.rate = T(0.5);
      parameters = parameters.at_step(1);
      const auto first = *stream.tensor_from(std::vector<T>(n, T{0}), {static_cast<std::int64_t>(n)});
      const auto second = *stream.tensor_from(std::vector<T>(n, T{0}), {static_cast<std::int64_t>(n)});
      REQUIRE(stream.launch(k::adam_update<T>(), chunks, n, chunk, parameters, T{0}, adam.y.template data<T>(),
                            first.template data<T>(), second.template data<T>(), adam.x.template data<T>()));
      // The first step is the rate along the sign of each slope.
      CHECK(worst(*stream.to_host<T>(adam.x),
                  adam.each([](double x, double y, double) { return x - 0.5 * y / (std::abs(y) + 1e-8); }))
            < 4096);
    }
  }
}
