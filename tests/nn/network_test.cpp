// What comes out of a network, by plain loops in float64; what it refuses; and that it allocates nothing on the way.
#include "host.hpp"
#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace nn::test {

using gpuactors::DType;
using gpuactors::Errc;

TEST_CASE("a network gives what plain loops give", "[nn]") {
  auto context = open_host();
  auto& stream = context->stream();
  for (const auto dtype : {DType::f32, DType::f64})
    for (const auto hidden : {Activation::identity, Activation::relu, Activation::tanh})
      for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{3, 2}, {7, 65, 4}, {64, 130, 9, 10}}) {
        const NetworkSpec spec{sizes, hidden, dtype, 0.25, 33};
        auto network = must(Network::make(stream, spec, 7));
        const auto x = random_values(static_cast<std::size_t>(33 * spec.inputs()), 1);
        const auto on_device = upload(stream, spec, x, {33, spec.inputs()});
        auto logits = must(stream.tensor(dtype, {33, spec.outputs()}));
        must(network.forward(on_device, logits));
        const Reference reference{{spec, {}, {}}, parameters(network)};
        CHECK(worst_error(download(stream, logits), reference.forward(x), 0.1) < (dtype == DType::f32 ? 1e-5 : 1e-13));
      }
}

TEST_CASE("any number of rows up to the most is served without an allocation", "[nn]") {
  auto context = open_host();
  auto& stream = context->stream();
  const NetworkSpec spec{{8, 16, 3}, Activation::relu, DType::f32, 1, 20};
  auto network = must(Network::make(stream, spec, 7));
  const auto x = random_values(20 * 8, 1);
  const auto on_device = upload(stream, spec, x, {20, 8});
  auto logits = must(stream.tensor(DType::f32, {20, 3}));
  must(network.forward(on_device, logits));
  const auto all = download(stream, logits);
  must(stream.synchronize());
  const auto used = context->memory_used();
  for (std::int64_t rows = 1; rows <= 20; ++rows) {
    must(stream.zero(logits));
    must(network.forward(rows, on_device.raw(), logits.raw()));
    const auto some = download(stream, logits);
    const auto count = static_cast<std::ptrdiff_t>(rows * 3);
    CHECK(worst_error({some.begin(), some.begin() + count}, {all.begin(), all.begin() + count}, 0.1) < 1e-6);
    CHECK(std::all_of(some.begin() + count, some.end(), [](double value) { return value == 0; }));
  }
  CHECK(context->memory_used() == used);
}

TEST_CASE("the seed decides a network, whatever it is made on", "[nn]") {
  auto context = open_host();
  const NetworkSpec spec{{8, 16, 3}};
  auto first = must(Network::make(context->stream(), spec, 7));
  auto same = must(Network::make(context->stream(), spec, 7));
  auto other = must(Network::make(context->stream(), spec, 8));
  CHECK(parameters(first) == parameters(same));
  CHECK(parameters(first) != parameters(other));
  const auto values = parameters(first);
  CHECK(*std::max_element(values.begin(), values.end()) <= 1 / std::sqrt(8.0));
  CHECK(*std::min_element(values.begin(), values.end()) < -0.3);
}

TEST_CASE("parameters lie apart, weights as PyTorch has them", "[nn]") {
  const auto parameters = parameters_of({{3, 5, 2}});
  REQUIRE(parameters.size() == 4);
  CHECK(parameters[0].name == "layers.0.weight");
  CHECK(parameters[0].shape == std::vector<std::int64_t>{5, 3});
  CHECK(parameters[3].name == "layers.1.bias");
  CHECK(parameters[3].shape == std::vector<std::int64_t>{2});
  CHECK(parameters[3].offset == 192);
  CHECK(parameter_elements({{3, 5, 2}}) == 256);
}

TEST_CASE("what does not fit a network is refused with the numbers", "[nn]") {
  auto context = open_host();
  auto& stream = context->stream();
  auto network = must(Network::make(stream, {{8, 16, 3}, Activation::relu, DType::f32, 1, 4}, 7));
  auto x = must(stream.tensor(DType::f32, {5, 8}));
  auto logits = must(stream.tensor(DType::f32, {5, 3}));
  CHECK(network.forward(x, logits).error().message() == "this network takes between 1 and 4 rows, not 5");
  auto narrow = must(stream.tensor(DType::f32, {5, 2}));
  CHECK(network.forward(x, narrow).error().message()
        == "a network 8,16,3 takes rows x 8 and gives rows x 3 of f32, not f32 [5, 8] and f32 [5, 2]");
  const std::map<std::string, NetworkSpec> wrong{
      {"at least two sizes", {{8}}},
      {"not 0", {{8, 0, 3}}},
      {"too many parameters", {{1 << 30, 1 << 30}}},
      {"f32 or f64, not i32", {{8, 3}, Activation::relu, DType::i32}},
      {"scaled by 0", {{8, 3}, Activation::relu, DType::f32, 0}},
      {"scaled by 1e+39 in f32", {{8, 3}, Activation::relu, DType::f32, 1e39}},
      {"scaled by 1e-50 in f32", {{8, 3}, Activation::relu, DType::f32, 1e-50}},
      {"rows at once, not 0", {{8, 3}, Activation::relu, DType::f32, 1, 0}},
  };
  for (const auto& [text, spec] : wrong) {
    const auto refused = Network::make(stream, spec, 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::invalid_argument);
    CHECK(says(refused.error(), text));
  }
}

} // namespace nn::test
