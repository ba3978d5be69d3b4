// Kernels: every index once, arguments as they were passed, and the library's own against float64.
#include <gpuactors/kernels/activation.hpp>
#include <gpuactors/kernels/elementwise.hpp>
#include <gpuactors/kernels/matrix.hpp>
#include <gpuactors/kernels/training.hpp>

#include <conformance/candidates.hpp>
#include <conformance/probe_kernels.hpp>

#include <cmath>

using namespace gpuactors;
using namespace gpuactors::conformance;
namespace k = gpuactors::kernels;

namespace {

template <class T>
void check_close(const Result<std::vector<T>>& result, const std::vector<double>& expected) {
  REQUIRE(result);
  REQUIRE(result->size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>((*result)[i]) - expected[i]));
  CHECK(worst <= 64 * static_cast<double>(std::numeric_limits<T>::epsilon()));
}

template <class T, class F>
std::vector<double> map(const std::vector<T>& x, F f) {
  std::vector<double> result;
  for (std::size_t i = 0; i < x.size(); ++i)
    result.push_back(f(i));
  return result;
}

} // namespace

TEST_CASE("a kernel runs for each index exactly once, for small and large index spaces") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    for (const std::int64_t n :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{31}, std::int64_t{1000}, std::int64_t{1'000'003}}) {
      auto x = stream.tensor_from(std::vector<std::int32_t>(static_cast<std::size_t>(n), 5), {n});
      REQUIRE(x);
      REQUIRE(stream.launch(mix, static_cast<std::uint64_t>(n), 1U, static_cast<std::uint32_t*>(x->raw())));
      CHECK(*stream.to_host<std::int32_t>(*x) == std::vector<std::int32_t>(static_cast<std::size_t>(n), 16));
    }
  }
}

TEST_CASE("arguments of all types arrive, and none is needed") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto out = stream.tensor(DType::f64, {3});
    REQUIRE(out);
    REQUIRE(stream.launch(many_arguments, 3, std::uint8_t{200}, 0.5, -7, 0.25F, std::uint64_t{1} << 40,
                          out->data<double>()));
    const auto base = 200 + 0.5 - 7 + 0.25 + static_cast<double>(std::uint64_t{1} << 40);
    CHECK(*stream.to_host<double>(*out) == std::vector<double>{base, base + 1, base + 2});
    CHECK(stream.launch(no_arguments, 10));
    CHECK(stream.synchronize());
  }
}

TEST_CASE("tensors are arguments, and one that the kernel cannot use is refused before it starts") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto x = stream.tensor_from(std::vector<float>{1, 2, 3});
    auto y = stream.tensor(DType::f32, {3});
    auto wide = stream.tensor_from(std::vector<double>{1, 2, 3});
    REQUIRE(x);
    REQUIRE(y);
    REQUIRE(wide);
    const auto& only_read = *x;
    REQUIRE(stream.launch(k::polynomial<float>(), 3, only_read, *y));
    CHECK(*stream.to_host<float>(*y) == std::vector<float>{4, 9, 16});
    REQUIRE(stream.launch(k::polynomial<float>(), 3, y->data<float>(), *y));
    CHECK(*stream.to_host<float>(*y) == std::vector<float>{25, 100, 289});

    const auto other_type = stream.launch(k::polynomial<float>(), 3, *x, *wide);
    REQUIRE_FALSE(other_type);
    CHECK(other_type.error().code() == Errc::invalid_argument);
    CHECK(other_type.error().message().find("argument 2 of kernel ") == 0);
    CHECK(other_type.error().message().find("the tensor holds f64, not f32") != std::string::npos);
    Tensor moved = std::move(*wide);
    CHECK(stream.launch(k::polynomial<double>(), 3, *wide, moved).error().code() // NOLINT(bugprone-use-after-move)
          == Errc::invalid_argument);
    REQUIRE(context->reclaim());
    CHECK(stream.launch(k::polynomial<float>(), 3, *x, *y).error().code() == Errc::lease_expired);
    // Nothing has reached the device.
    CHECK(stream.synchronize());
  }
}

TEST_CASE("a kernel over no indices is refused with its name") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    const auto refused = context->stream().launch(no_arguments, 0);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::invalid_argument);
    CHECK(refused.error().message() == "kernel no_arguments was started over 0 indices; at least 1 is needed");
  }
}

TEST_CASE("a kernel that a device has no code for is refused, and the stream goes on") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const KernelImage empty{nullptr, nullptr};
    const Kernel<> missing{{"missing", nullptr, &empty}};
    const auto refused = stream.launch(missing, 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::unsupported);
    CHECK(refused.error().message().find("missing") != std::string::npos);
    CHECK(stream.launch(no_arguments, 1));
    CHECK(stream.synchronize());
  }
}

TEMPLATE_TEST_CASE("the library's kernels agree with float64", "", float, double) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    constexpr std::uint64_t rows = 37;
    constexpr std::uint64_t columns = 29;
    constexpr auto n = rows * columns;
    const auto x = values<T>(n, 1);
    const auto y = values<T>(n, 2);
    const auto d = [](T value) { return static_cast<double>(value); };
    auto dx = stream.tensor_from(x, {n});
    auto dy = stream.tensor_from(y, {n});
    auto dz = stream.tensor(dtype_of<T>, {n});
    REQUIRE(dx);
    REQUIRE(dy);
    REQUIRE(dz);
    auto* px = dx->template data<T>();
    auto* py = dy->template data<T>();
    auto* pz = dz->template data<T>();
    const auto result = [&] { return stream.to_host<T>(*dz); };

    REQUIRE(stream.launch(k::fill_value<T>(), n, T{3}, pz));
    check_close(result(), std::vector<double>(n, 3.0));
    REQUIRE(stream.launch(k::polynomial<T>(), n, px, pz));
    check_close(result(), map(x, [&](auto i) { return (d(x[i]) + 1) * (d(x[i]) + 1); }));
    REQUIRE(stream.launch(k::add<T>(), n, px, py, pz));
    check_close(result(), map(x, [&](auto i) { return d(x[i]) + d(y[i]); }));
    REQUIRE(stream.launch(k::axpy<T>(), n, T(0.5), px, pz));
    check_close(result(), map(x, [&](auto i) { return 1.5 * d(x[i]) + d(y[i]); }));
    REQUIRE(stream.launch(k::scale<T>(), n, T{2}, pz));
    check_close(result(), map(x, [&](auto i) { return 3 * d(x[i]) + 2 * d(y[i]); }));
    REQUIRE(stream.launch(k::relu<T>(), n, px, pz));
    check_close(result(), map(x, [&](auto i) { return std::max(d(x[i]), 0.0); }));
    REQUIRE(stream.launch(k::relu_backward<T>(), n, px, py, pz));
    check_close(result(), map(x, [&](auto i) { return d(x[i]) > 0 ? d(y[i]) : 0; }));
    REQUIRE(stream.launch(k::tanh_forward<T>(), n, px, pz));
    check_close(result(), map(x, [&](auto i) { return std::tanh(d(x[i])); }));
    REQUIRE(stream.launch(k::tanh_backward<T>(), n, px, py, pz));
    check_close(result(), map(x, [&](auto i) { return d(y[i]) * (1 - d(x[i]) * d(x[i])); }));
    REQUIRE(stream.launch(k::transpose<T>(), n, rows, columns, px, pz));
    check_close(result(), map(x, [&](auto i) { return d(x[(i % rows) * columns + i / rows]); }));
    REQUIRE(stream.launch(k::mse_gradient<T>(), n, n, px, py, pz));
    check_close(result(), map(x, [&](auto i) { return 2 * (d(x[i]) - d(y[i])) / n; }));
    REQUIRE(stream.launch(k::squared_error<T>(), n, n, px, py, pz));
    check_close(result(), map(x, [&](auto i) { return std::pow(d(x[i]) - d(y[i]), 2) / n; }));
    REQUIRE(stream.copy(*dz, *dx));
    REQUIRE(stream.launch(k::sgd_step<T>(), n, T(0.25), py, pz));
    check_close(result(), map(x, [&](auto i) { return d(x[i]) - 0.25 * d(y[i]); }));
    REQUIRE(stream.copy(*dz, *dx));
    REQUIRE(stream.launch(k::add_to_rows<T>(), n, columns, py, pz));
    check_close(result(), map(x, [&](auto i) { return d(x[i]) + d(y[i % columns]); }));

    auto sums = stream.tensor(dtype_of<T>, {columns});
    REQUIRE(sums);
    REQUIRE(stream.launch(k::column_sums<T>(), columns, rows, columns, px, sums->template data<T>()));
    check_close(stream.to_host<T>(*sums), map(std::vector<T>(columns), [&](auto i) {
                  double sum = 0;
                  for (std::uint64_t row = 0; row < rows; ++row)
                    sum += d(x[row * columns + i]);
                  return sum;
                }));
    constexpr std::uint64_t chunk = 40;
    auto chunks = stream.tensor(dtype_of<T>, {(n + chunk - 1) / chunk});
    REQUIRE(chunks);
    REQUIRE(stream.launch(k::sum_chunks<T>(), (n + chunk - 1) / chunk, n, chunk, px, chunks->template data<T>()));
    check_close(stream.to_host<T>(*chunks), map(std::vector<T>((n + chunk - 1) / chunk), [&](auto i) {
                  double sum = 0;
                  for (auto at = i * chunk; at < std::min(n, (i + 1) * chunk); ++at)
                    sum += d(x[at]);
                  return sum;
                }));
  }
}

TEMPLATE_TEST_CASE("steps of Adam agree with float64", "", float, double) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    constexpr std::int64_t n = 50;
    const auto gradient = values<T>(n, 5);
    std::vector<double> weight(n, 1.0);
    std::vector<double> first(n, 0.0);
    std::vector<double> second(n, 0.0);
    auto dg = stream.tensor_from(gradient, {n});
    auto df = stream.tensor_from(std::vector<T>(n, T{0}), {n});
    auto ds = stream.tensor_from(std::vector<T>(n, T{0}), {n});
    auto dw = stream.tensor_from(std::vector<T>(n, T{1}), {n});
    REQUIRE(dw);
    k::AdamParameters<T> parameters;
    parameters.rate = T(0.01);
    for (std::uint64_t t = 1; t <= 5; ++t) {
      REQUIRE(stream.launch(k::adam_step<T>(), n, parameters.at_step(t), dg->template data<T>(), df->template data<T>(),
                            ds->template data<T>(), dw->template data<T>()));
      for (std::size_t i = 0; i < n; ++i) {
        const auto g = static_cast<double>(gradient[i]);
        first[i] = 0.9 * first[i] + 0.1 * g;
        second[i] = 0.999 * second[i] + 0.001 * g * g;
        weight[i] -=
            0.01 * first[i] / (1 - std::pow(0.9, t)) / (std::sqrt(second[i] / (1 - std::pow(0.999, t))) + 1e-8);
      }
    }
    check_close(stream.to_host<T>(*dw), weight);
  }
}
