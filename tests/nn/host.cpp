#include "host.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nn::test {

std::unique_ptr<gpuactors::Context> open_host() {
  const auto specs = must(gpuactors::parse_device_specs("host:1x256MiB"));
  const auto devices = must(gpuactors::make_devices(specs, gpuactors::discovery_options("test")));
  return must(gpuactors::Context::open(devices.at(0), {}));
}

gpuactors::Tensor upload(gpuactors::Stream& stream, const NetworkSpec& spec, const std::vector<double>& values,
                         std::vector<std::int64_t> shape) {
  if (spec.dtype == gpuactors::DType::f64)
    return must(stream.tensor_from(values, std::move(shape)));
  return must(stream.tensor_from(std::vector<float>(values.begin(), values.end()), std::move(shape)));
}

std::vector<double> download(gpuactors::Stream& stream, const gpuactors::Tensor& tensor) {
  if (tensor.dtype() == gpuactors::DType::f64)
    return must(stream.to_host<double>(tensor));
  const auto values = must(stream.to_host<float>(tensor));
  return {values.begin(), values.end()};
}

std::vector<double> parameters(Network& network) {
  const auto all = download(network.stream(), network.values());
  std::vector<double> result;
  for (const auto& parameter : network.parameters()) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(parameter.offset);
    result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(parameter.size));
  }
  return result;
}

double worst_error(const std::vector<double>& actual, const std::vector<double>& expected, double scale) {
  if (actual.size() != expected.size())
    return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto error = std::abs(actual[i] - expected[i]) / std::max(std::abs(expected[i]), scale);
    if (!(error <= worst))
      worst = error;
  }
  return worst;
}

} // namespace nn::test
