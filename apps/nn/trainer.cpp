#include "trainer.hpp"

#include <gpuactors/kernels/layers.hpp>
#include <gpuactors/kernels/loss.hpp>
#include <gpuactors/kernels/optimizer.hpp>

#include <fmt/format.h>

#include <limits>

namespace nn {

using gpuactors::DType;
using gpuactors::Errc;
using gpuactors::Result;

namespace kernels = gpuactors::kernels;

std::string_view to_string(Loss loss) noexcept {
  return loss == Loss::cross_entropy ? "cross_entropy" : "mean_squared_error";
}

std::string_view to_string(OptimizerKind kind) noexcept {
  return kind == OptimizerKind::sgd ? "sgd" : "adam";
}

Result<void> check(const Optimizer& optimizer, DType dtype) {
  const bool narrow = dtype == DType::f32;
  const auto rounded = [narrow](double value) {
    return narrow ? static_cast<double>(static_cast<float>(value)) : value;
  };
  const auto in = [&](double value, double most) { return rounded(value) >= 0 && rounded(value) < most; };
  const auto wrong = [narrow](std::string_view what, double value, std::string_view range) {
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("{} is {}{}, not {}", what, range, narrow ? " in f32" : "", value));
  };
  constexpr double most = 1e6;
  if (!in(optimizer.rate, most) || rounded(optimizer.rate) == 0)
    return wrong("the rate of learning", optimizer.rate, "above 0 and below 1000000");
  if (!in(optimizer.weight_decay, most))
    return wrong("the decay of weights", optimizer.weight_decay, "at least 0");
  if (!in(optimizer.momentum, 1))
    return wrong("the momentum", optimizer.momentum, "at least 0 and below 1");
  if (!in(optimizer.beta1, 1) || !in(optimizer.beta2, 1))
    return wrong("a beta of Adam", in(optimizer.beta1, 1) ? optimizer.beta2 : optimizer.beta1,
                 "at least 0 and below 1");
  // Less has no full precision, or is 0: then a parameter whose gradient is 0 becomes 0 / 0.
  const double least = narrow ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  if (!in(optimizer.epsilon, 1) || rounded(optimizer.epsilon) < least)
    return wrong("the epsilon of Adam", optimizer.epsilon, fmt::format("at least {} and below 1", least));
  return {};
}

Result<Trainer> Trainer::make(gpuactors::Stream& stream, const TrainerSpec& spec, std::uint64_t seed) {
  GPUACTORS_TRY(check(spec.optimizer, spec.network.dtype));
  GPUACTORS_LET(network, Network::make(stream, spec.network, seed));
  Trainer trainer{std::move(network), spec};
  trainer.grain_ = Grain::of(stream.context().device().kind);
  const auto dtype = spec.network.dtype;
  const auto elements = trainer.network_.values().size();
  const auto zeros = [&]() -> Result<gpuactors::Tensor> {
    GPUACTORS_LET(tensor, stream.tensor(dtype, {elements}));
    GPUACTORS_TRY(stream.zero(tensor));
    return std::move(tensor);
  };
  // What lies between two parameters stays zero here as well.
  GPUACTORS_LET(gradient, zeros());
  trainer.gradient_ = std::move(gradient);
  std::vector<std::string_view> names;
  if (spec.optimizer.kind == OptimizerKind::adam)
    names = {"first", "second"};
  else if (spec.optimizer.momentum != 0)
    names = {"momentum"};
  for (const auto name : names) {
    GPUACTORS_LET(values, zeros());
    trainer.memory_.push_back({name, std::move(values)});
  }
  const auto rows = spec.network.max_rows;
  GPUACTORS_LET(x, stream.tensor(dtype, {rows, spec.network.inputs()}));
  trainer.x_ = std::move(x);
  for (std::size_t layer = 0; layer < spec.network.layers(); ++layer) {
    GPUACTORS_LET(gradients, stream.tensor(dtype, {rows, spec.network.sizes[layer + 1]}));
    trainer.output_gradients_.push_back(std::move(gradients));
  }
  return trainer;
}

void* Trainer::gradient_of(std::size_t parameter) const {
  return static_cast<std::byte*>(gradient_.raw())
         + network_.parameters()[parameter].offset * gpuactors::size_of(spec_.network.dtype);
}

Result<void> Trainer::step(const Batch& batch) {
  GPUACTORS_TRY(compute_gradient(batch));
  return update();
}

// -- gradients --------------------------------------------------------------------------------------

Result<void> Trainer::compute_gradient(const Batch& batch) {
  return spec_.network.dtype == DType::f32 ? find_gradient_as<float>(batch) : find_gradient_as<double>(batch);
}

Result<void> Trainer::clear_gradient() {
  return network_.stream().zero(gradient_);
}

template <class T>
Result<void> Trainer::find_gradient_as(const Batch& batch) {
  auto& stream = network_.stream();
  const auto last = spec_.network.layers() - 1;
  const void* x = batch.x;
  if (batch.order != nullptr && batch.rows >= 1 && batch.rows <= spec_.network.max_rows) {
    const auto tiling = kernels::Tiling::of(static_cast<std::uint64_t>(spec_.network.inputs()), grain_.row_tile);
    GPUACTORS_TRY(stream.launch(kernels::gather_rows<T>(), static_cast<std::uint64_t>(batch.rows) * tiling.tiles,
                                tiling, batch.order, static_cast<const T*>(batch.x), x_));
    x = x_.raw();
  }
  // Forward into the gradients of the last layer, where the loss puts gradients in the place of outputs.
  GPUACTORS_TRY(network_.forward(batch.rows, x, output_gradients_[last].raw(), false));
  GPUACTORS_TRY(find_loss<T>(batch));
  for (auto layer = last;; --layer) {
    GPUACTORS_TRY(finish_gradients<T>(layer, batch.rows));
    GPUACTORS_TRY(weight_gradient(layer, batch.rows, layer == 0 ? x : network_.hidden(layer - 1)));
    if (layer == 0)
      return {};
    GPUACTORS_TRY(pass_back(layer, batch.rows));
  }
}

template <class T>
Result<void> Trainer::find_loss(const Batch& batch) {
  auto& stream = network_.stream();
  const auto last = spec_.network.layers() - 1;
  const auto rows = static_cast<std::uint64_t>(batch.rows);
  const auto columns = static_cast<std::uint64_t>(spec_.network.outputs());
  const auto total = static_cast<double>(batch.total_rows > 0 ? batch.total_rows : batch.rows);
  const auto* bias = static_cast<const T*>(network_.parameter(2 * last + 1));
  auto* y = output_gradients_[last].data<T>();
  auto* losses = static_cast<T*>(batch.losses);
  if (spec_.loss == Loss::cross_entropy)
    return stream.launch(kernels::softmax_cross_entropy<T>(), rows, columns, static_cast<T>(1 / total), batch.order,
                         static_cast<const std::int32_t*>(batch.targets), bias, y, losses);
  return stream.launch(kernels::squared_error_rows<T>(), rows, columns,
                       static_cast<T>(1 / (total * static_cast<double>(columns))), batch.order,
                       static_cast<const T*>(batch.targets), bias, y, losses);
}

/// Takes the gradients of a layer's outputs back through its activation, and sums them up for its bias.
template <class T>
Result<void> Trainer::finish_gradients(std::size_t layer, std::int64_t rows) {
  auto& stream = network_.stream();
  const auto tiling =
      kernels::Tiling::of(static_cast<std::uint64_t>(spec_.network.sizes[layer + 1]), grain_.column_tile);
  const auto count = static_cast<std::uint64_t>(rows);
  auto* gradients = output_gradients_[layer].data<T>();
  auto* sums = static_cast<T*>(gradient_of(2 * layer + 1));
  const bool last = layer + 1 == spec_.network.layers();
  if (last || spec_.network.hidden == Activation::identity)
    return stream.launch(kernels::bias_gradient<T>(), tiling.tiles, count, tiling, gradients, sums);
  const auto* y = static_cast<const T*>(network_.hidden(layer));
  return stream.launch(spec_.network.hidden == Activation::relu ? kernels::bias_relu_backward<T>()
                                                                : kernels::bias_tanh_backward<T>(),
                       tiling.tiles, count, tiling, y, gradients, sums);
}

/// weight gradients (outputs x inputs) = transpose of the gradients (rows x outputs) times the layer's input (rows x
/// inputs)
Result<void> Trainer::weight_gradient(std::size_t layer, std::int64_t rows, const void* input) {
  gpuactors::Gemm product;
  product.dtype = spec_.network.dtype;
  product.transpose_a = true;
  product.m = spec_.network.sizes[layer + 1];
  product.n = spec_.network.sizes[layer];
  product.k = rows;
  product.alpha = layer == 0 ? spec_.network.input_scale : 1;
  product.a = output_gradients_[layer].raw();
  product.lda = product.m;
  product.b = input;
  product.ldb = product.n;
  product.c = gradient_of(2 * layer);
  product.ldc = product.n;
  return network_.stream().gemm(product);
}

/// gradients of the layer below (rows x inputs) = gradients (rows x outputs) times the weights (outputs x inputs)
Result<void> Trainer::pass_back(std::size_t layer, std::int64_t rows) {
  gpuactors::Gemm product;
  product.dtype = spec_.network.dtype;
  product.m = rows;
  product.n = spec_.network.sizes[layer];
  product.k = spec_.network.sizes[layer + 1];
  product.a = output_gradients_[layer].raw();
  product.lda = product.k;
  product.b = network_.parameter(2 * layer);
  product.ldb = product.n;
  product.c = output_gradients_[layer - 1].raw();
  product.ldc = product.n;
  return network_.stream().gemm(product);
}

// -- update --------------------------------------------------------------------------------------

Result<void> Trainer::update() {
  GPUACTORS_TRY(spec_.network.dtype == DType::f32 ? update_as<float>() : update_as<double>());
  ++steps_;
  return {};
}

template <class T>
Result<void> Trainer::update_as() {
  auto& stream = network_.stream();
  const auto& optimizer = spec_.optimizer;
  const auto n = static_cast<std::uint64_t>(gradient_.size());
  const auto chunks = (n + grain_.chunk - 1) / grain_.chunk;
  const auto* gradient = gradient_.data<T>();
  auto* weights = network_.values().data<T>();
  if (optimizer.kind == OptimizerKind::adam) {
    kernels::AdamParameters<T> adam;
    adam.rate = static_cast<T>(optimizer.rate);
    adam.beta1 = static_cast<T>(optimizer.beta1);
    adam.beta2 = static_cast<T>(optimizer.beta2);
    adam.epsilon = static_cast<T>(optimizer.epsilon);
    return stream.launch(kernels::adam_update<T>(), chunks, n, grain_.chunk, adam.at_step(steps_ + 1),
                         static_cast<T>(optimizer.weight_decay), gradient, memory_[0].values, memory_[1].values,
                         weights);
  }
  const kernels::SgdParameters<T> sgd{static_cast<T>(optimizer.rate), static_cast<T>(optimizer.momentum),
                                      static_cast<T>(optimizer.weight_decay)};
  if (memory_.empty())
    return stream.launch(kernels::sgd_update<T>(), chunks, n, grain_.chunk, sgd, gradient, weights);
  return stream.launch(kernels::momentum_update<T>(), chunks, n, grain_.chunk, sgd, gradient, memory_[0].values,
                       weights);
}

} // namespace nn
