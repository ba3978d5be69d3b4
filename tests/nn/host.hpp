// A part of a host device to test on, and values that must be there.
#pragma once

#include <gpuactors/device/discovery.hpp>

#include <apps/nn/trainer.hpp>
#include <support/results.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace nn::test {

using gpuactors::test::must;
using gpuactors::test::says;

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
