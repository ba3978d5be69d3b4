// Trains T3, T16 and T17 on a host device and prints, as JSON, what they began with and the loss before each step, for
// another program to make the same steps.
#include "reference.hpp"

#include <gpuactors/device/discovery.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace nn::test {

namespace {

struct Program {
  const char* id;
  std::int64_t inputs;
  std::int64_t outputs;
  std::int64_t rows;
  int steps;
  Optimizer optimizer;
};

/// Values that are the same in f32 and f64.
std::vector<double> narrow(std::vector<double> values) {
  for (auto& value : values)
    value = static_cast<float>(value);
  return values;
}

template <class T>
T check(gpuactors::Result<T> result) {
  if (result)
    return std::move(*result);
  fmt::print(stderr, "{}\n", gpuactors::to_string(result.error()));
  std::exit(1);
}

void check(const gpuactors::Result<void>& result) {
  if (result)
    return;
  fmt::print(stderr, "{}\n", gpuactors::to_string(result.error()));
  std::exit(1);
}

gpuactors::Tensor to_device(gpuactors::Stream& stream, gpuactors::DType dtype, const std::vector<double>& values,
                            std::vector<std::int64_t> shape) {
  if (dtype == gpuactors::DType::f64)
    return check(stream.tensor_from(values, std::move(shape)));
  return check(stream.tensor_from(std::vector<float>(values.begin(), values.end()), std::move(shape)));
}

std::vector<double> train(gpuactors::Context& context, const Program& program, gpuactors::DType dtype,
                          const std::vector<double>& x, const std::vector<double>& targets,
                          const std::vector<double>& parameters) {
  auto& stream = context.stream();
  const TrainerSpec spec{{{program.inputs, program.outputs}, Activation::identity, dtype, 1, program.rows},
                         Loss::mean_squared_error,
                         program.optimizer};
  auto trainer = check(Trainer::make(stream, spec, 1));
  const auto on_device = to_device(stream, dtype, x, {program.rows, program.inputs});
  const auto wanted = to_device(stream, dtype, targets, {program.rows, program.outputs});
  std::vector<double> begin(parameter_elements(spec.network));
  std::size_t at = 0;
  for (const auto& parameter : parameters_of(spec.network)) {
    for (std::size_t i = 0; i < parameter.size; ++i)
      begin[parameter.offset + i] = parameters[at + i];
    at += parameter.size;
  }
  check(stream.copy(trainer.network().values(),
                    to_device(stream, dtype, begin, {static_cast<std::int64_t>(begin.size())})));
  auto losses = check(stream.tensor(dtype, {program.steps, program.rows}));
  for (int step = 0; step < program.steps; ++step)
    check(trainer.step(
        {program.rows, on_device.raw(), wanted.raw(), nullptr, 0,
         static_cast<std::byte*>(losses.raw())
             + static_cast<std::int64_t>(step) * program.rows * static_cast<std::int64_t>(gpuactors::size_of(dtype))}));
  const auto all = dtype == gpuactors::DType::f64 ? check(stream.to_host<double>(losses)) : [&] {
    const auto values = check(stream.to_host<float>(losses));
    return std::vector<double>(values.begin(), values.end());
  }();
  std::vector<double> means;
  for (auto row = all.begin(); row != all.end(); row += program.rows)
    means.push_back(std::accumulate(row, row + program.rows, 0.0) / static_cast<double>(program.rows));
  return means;
}

int print_losses() {
  const std::vector<Program> programs{
      {"T3", 100, 1, 100, 10, {.rate = 0.01}},  {"T3", 200, 1, 100, 10, {.rate = 0.01}},
      {"T3", 300, 1, 100, 10, {.rate = 0.01}},  {"T16", 10, 2, 100, 1000, {.kind = OptimizerKind::adam, .rate = 0.01}},
      {"T17", 10, 1, 64, 1000, {.rate = 1e-4}},
  };
  const auto devices = check(gpuactors::make_devices(check(gpuactors::parse_device_specs("host:1x256MiB")),
                                                     gpuactors::discovery_options("test")));
  const auto context = check(gpuactors::Context::open(devices.at(0), {}));
  const char* separator = "";
  fmt::print("[");
  for (const auto& program : programs) {
    const auto count = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
    const auto x = narrow(random_values(count(program.rows, program.inputs), 1));
    const auto targets = narrow(random_values(count(program.rows, program.outputs), 2));
    const auto parameters = narrow(random_values(count(program.inputs + 1, program.outputs), 3, -0.1, 0.1));
    fmt::print("{}{{\"id\":\"{}\",\"inputs\":{},\"outputs\":{},\"optimizer\":\"{}\",\"rate\":{},\"x\":[{}],"
               "\"targets\":[{}],\"parameters\":[{}],\"f32\":[{}],\"f64\":[{}]}}\n",
               separator, program.id, program.inputs, program.outputs, to_string(program.optimizer.kind),
               program.optimizer.rate, fmt::join(x, ","), fmt::join(targets, ","), fmt::join(parameters, ","),
               fmt::join(train(*context, program, gpuactors::DType::f32, x, targets, parameters), ","),
               fmt::join(train(*context, program, gpuactors::DType::f64, x, targets, parameters), ","));
    separator = ",";
  }
  fmt::print("]\n");
  return 0;
}

} // namespace

} // namespace nn::test

int main() {
  return nn::test::print_losses();
}
