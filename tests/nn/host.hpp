// A part of a host device to test on, and values that must be there.
#pragma once

#include <gpuactors/device/discovery.hpp>

#include <apps/nn/trainer.hpp>
#include <support/catch.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace nn::test {

/// The value, or a failure of the test that shows the error.
template <class T>
T must(gpuactors::Result<T> result) {
  if (!result)
    FAIL(gpuactors::to_string(result.error()));
  return std::move(*result);
}

inline void must(const gpuactors::Result<void>& result) {
  if (!result)
    FAIL(gpuactors::to_string(result.error()));
}

/// Whether the text of an error has these words; shows it if not.
bool says(const gpuactors::Error& error, std::string_view words);

/// A lease on a host device of its own.
std::unique_ptr<gpuactors::Context> open_host();

/// Values in the type of a network, on its device.
gpuactors::Tensor upload(gpuactors::Stream& stream, const NetworkSpec& spec, const std::vector<double>& values,
                         std::vector<std::int64_t> shape);

/// The elements of a tensor of f32 or f64.
std::vector<double> download(gpuactors::Stream& stream, const gpuactors::Tensor& tensor);

/// The parameters of a network without the gaps between them.
std::vector<double> parameters(Network& network);

/// The largest difference, relative to the larger of the expected value and `scale`.
double worst_error(const std::vector<double>& actual, const std::vector<double>& expected, double scale = 1e-300);

} // namespace nn::test
