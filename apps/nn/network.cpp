#include "network.hpp"

#include "random.hpp"

#include <gpuactors/kernels/layers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace nn {

using gpuactors::DType;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::Tensor;

namespace kernels = gpuactors::kernels;

namespace {

/// Parameters begin where BLAS and vector loads like them to.
constexpr std::size_t alignment = 64;

/// More than any device has memory for; keeps all sizes far from overflow.
constexpr std::int64_t most_elements = std::int64_t{1} << 40;

std::size_t aligned(std::size_t elements) {
  return (elements + alignment - 1) / alignment * alignment;
}

} // namespace

// -- what a network is ---------------------------------------------------------------------------

std::string_view to_string(Activation activation) noexcept {
  switch (activation) {
  case Activation::relu:
    return "relu";
  case Activation::tanh:
    return "tanh";
  default:
    return "identity";
  }
}

Result<Activation> parse_activation(std::string_view name) {
  for (const auto activation : {Activation::identity, Activation::relu, Activation::tanh})
    if (to_string(activation) == name)
      return activation;
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("there is no activation \"{}\"; there are identity, relu and tanh", name));
}

Result<void> check(const NetworkSpec& spec) {
  const auto wrong = [](std::string text) { return gpuactors::fail(Errc::invalid_argument, std::move(text)); };
  if (spec.sizes.size() < 2)
    return wrong(fmt::format("a network has at least two sizes, inputs and outputs, not {}", spec.sizes.size()));
  if (spec.dtype != DType::f32 && spec.dtype != DType::f64)
    return wrong(fmt::format("a network computes in f32 or f64, not {}", gpuactors::to_string(spec.dtype)));
  const auto scale =
      spec.dtype == DType::f32 ? static_cast<double>(static_cast<float>(spec.input_scale)) : spec.input_scale;
  if (!std::isfinite(scale) || scale == 0)
    return wrong(fmt::format("inputs cannot be scaled by {} in {}: that has to be a finite number other than 0",
                             spec.input_scale, gpuactors::to_string(spec.dtype)));
  if (spec.max_rows < 1 || spec.max_rows > most_elements)
    return wrong(fmt::format("a network takes between 1 and {} rows at once, not {}", most_elements, spec.max_rows));
  std::int64_t all = 0;
  for (std::size_t i = 0; i < spec.sizes.size(); ++i) {
    const auto size = spec.sizes[i];
    if (size < 1 || size > most_elements)
      return wrong(fmt::format("the sizes of a network are between 1 and {}, not {}", most_elements, size));
    std::int64_t product = 0;
    if (__builtin_mul_overflow(size, i == 0 ? spec.max_rows : std::max(spec.sizes[i - 1], spec.max_rows), &product)
        || (all += std::min(product, most_elements)) >= most_elements)
      return wrong(fmt::format("a network of sizes {} has too many parameters", fmt::join(spec.sizes, ",")));
  }
  return {};
}

std::vector<Parameter> parameters_of(const NetworkSpec& spec) {
  std::vector<Parameter> parameters;
  std::size_t offset = 0;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
    std::size_t size = 1;
    for (const auto dimension : shape)
      size *= static_cast<std::size_t>(dimension);
    parameters.push_back({std::move(name), std::move(shape), offset, size});
    offset += aligned(size);
  };
  for (std::size_t layer = 0; layer < spec.layers(); ++layer) {
    add(fmt::format("layers.{}.weight", layer), {spec.sizes[layer + 1], spec.sizes[layer]});
    add(fmt::format("layers.{}.bias", layer), {spec.sizes[layer + 1]});
  }
  return parameters;
}

std::size_t parameter_elements(const NetworkSpec& spec) {
  std::size_t elements = 0;
  for (const auto& parameter : parameters_of(spec))
    elements += aligned(parameter.size);
  return elements;
}

Grain Grain::of(gpuactors::DeviceKind kind) {
  if (kind != gpuactors::DeviceKind::host)
    return {};
  // Long enough for vectors, short enough that the threads of a share can divide the rows and columns of large layers.
  return {1024, 64, 4096};
}

// -- the network ---------------------------------------------------------------------------------

Network::Network(gpuactors::Stream& stream, const NetworkSpec& spec)
  : stream_(&stream), spec_(spec), grain_(Grain::of(stream.context().device().kind)), parameters_(parameters_of(spec)) {
  // nop
}

Result<Network> Network::make(gpuactors::Stream& stream, const NetworkSpec& spec, std::uint64_t seed) {
  GPUACTORS_TRY(check(spec));
  Network network{stream, spec};
  for (std::size_t layer = 0; layer + 1 < spec.layers(); ++layer) {
    GPUACTORS_LET(outputs, stream.tensor(spec.dtype, {spec.max_rows, spec.sizes[layer + 1]}));
    network.hidden_.push_back(std::move(outputs));
  }
  GPUACTORS_TRY(spec.dtype == DType::f32 ? network.initialize<float>(seed) : network.initialize<double>(seed));
  return network;
}

template <class T>
Result<void> Network::initialize(std::uint64_t seed) {
  // The device first: a network that is too large for its lease is refused before the host has given it memory.
  const auto elements = parameter_elements(spec_);
  GPUACTORS_LET(on_device, stream_->tensor(spec_.dtype, {static_cast<std::int64_t>(elements)}));
  std::vector<T> values(elements, T{0});
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto bound = 1 / std::sqrt(static_cast<double>(spec_.sizes[i / 2]));
    Random random{seed, i};
    for (std::size_t k = 0; k < parameters_[i].size; ++k)
      values[parameters_[i].offset + k] = static_cast<T>(bound * (2 * random.uniform() - 1));
  }
  GPUACTORS_TRY(stream_->upload(on_device, values));
  GPUACTORS_TRY(stream_->synchronize());
  values_ = std::move(on_device);
  return {};
}

void* Network::parameter(std::size_t index) const {
  return static_cast<std::byte*>(values_.raw()) + parameters_[index].offset * gpuactors::size_of(spec_.dtype);
}

Result<void> Network::forward(const Tensor& x, Tensor& logits) {
  const auto fits = [&](const Tensor& tensor, std::int64_t columns) {
    return tensor.dtype() == spec_.dtype && tensor.shape().size() == 2 && tensor.shape()[1] == columns;
  };
  if (!fits(x, spec_.inputs()) || !fits(logits, spec_.outputs()) || x.shape()[0] != logits.shape()[0])
    return gpuactors::fail(
        Errc::invalid_argument,
        fmt::format("a network {} takes rows x {} and gives rows x {} of {}, not {} [{}] and {} [{}]",
                    fmt::join(spec_.sizes, ","), spec_.inputs(), spec_.outputs(), gpuactors::to_string(spec_.dtype),
                    gpuactors::to_string(x.dtype()), fmt::join(x.shape(), ", "), gpuactors::to_string(logits.dtype()),
                    fmt::join(logits.shape(), ", ")));
  return forward(x.shape()[0], x.raw(), logits.raw());
}

Result<void> Network::forward(std::int64_t rows, const void* x, void* logits, bool last_bias) {
  if (rows < 1 || rows > spec_.max_rows)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("this network takes between 1 and {} rows, not {}", spec_.max_rows, rows));
  const void* input = x;
  for (std::size_t layer = 0; layer < spec_.layers(); ++layer) {
    void* output = layer + 1 < spec_.layers() ? hidden_[layer].raw() : logits;
    gpuactors::Gemm product;
    product.dtype = spec_.dtype;
    product.transpose_b = true;
    product.m = rows;
    product.n = spec_.sizes[layer + 1];
    product.k = spec_.sizes[layer];
    product.alpha = layer == 0 ? spec_.input_scale : 1;
    product.a = input;
    product.lda = product.k;
    product.b = parameter(2 * layer);
    product.ldb = product.k;
    product.c = output;
    product.ldc = product.n;
    GPUACTORS_TRY(stream_->gemm(product));
    GPUACTORS_TRY(spec_.dtype == DType::f32 ? finish_layer(layer, rows, static_cast<float*>(output), last_bias)
                                            : finish_layer(layer, rows, static_cast<double*>(output), last_bias));
    input = output;
  }
  return {};
}

template <class T>
Result<void> Network::finish_layer(std::size_t layer, std::int64_t rows, T* y, bool last_bias) {
  const bool last = layer + 1 == spec_.layers();
  if (last && !last_bias)
    return {};
  const auto tiling = kernels::Tiling::of(static_cast<std::uint64_t>(spec_.sizes[layer + 1]), grain_.row_tile);
  const auto n = static_cast<std::uint64_t>(rows) * tiling.tiles;
  const auto* bias = static_cast<const T*>(parameter(2 * layer + 1));
  switch (last ? Activation::identity : spec_.hidden) {
  case Activation::relu:
    return stream_->launch(kernels::bias_relu<T>(), n, tiling, bias, y);
  case Activation::tanh:
    return stream_->launch(kernels::bias_tanh<T>(), n, tiling, bias, y);
  default:
    return stream_->launch(kernels::bias_rows<T>(), n, tiling, bias, y);
  }
}

} // namespace nn
