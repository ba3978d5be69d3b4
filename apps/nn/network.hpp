// A fully connected network that lives on a device: its parameters, and the way from inputs to outputs.
//
//   GPUACTORS_LET(network, nn::Network::make(stream, {.sizes = {64, 128, 10}}, seed));
//   GPUACTORS_TRY(network.forward(x, logits)); // queued on the stream, allocates nothing
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nn {

/// What follows each layer but the last.
enum class Activation : std::uint8_t { identity, relu, tanh };

[[nodiscard]] std::string_view to_string(Activation activation) noexcept;

/// @returns `invalid_argument` with the names that there are.
gpuactors::Result<Activation> parse_activation(std::string_view name);

/// What a network is. A plain value.
struct NetworkSpec {
  /// Inputs, outputs of each hidden layer, outputs: at least two numbers of at least 1.
  std::vector<std::int64_t> sizes;
  Activation hidden = Activation::relu;
  /// f32 or f64, of parameters, inputs and outputs.
  gpuactors::DType dtype = gpuactors::DType::f32;
  /// What inputs are multiplied by, so that the data may stay as it came (1/16 for pixels of 0 to 16).
  double input_scale = 1;
  /// The most rows that one call of `forward` takes.
  std::int64_t max_rows = 64;

  [[nodiscard]] std::int64_t inputs() const {
    return sizes.front();
  }

  [[nodiscard]] std::int64_t outputs() const {
    return sizes.back();
  }

  /// Layers with parameters.
  [[nodiscard]] std::size_t layers() const {
    return sizes.size() - 1;
  }

  friend bool operator==(const NetworkSpec&, const NetworkSpec&) = default;
};

/// @returns `invalid_argument` with what is wrong: too few sizes, one below 1, too many parameters, a type or scale.
gpuactors::Result<void> check(const NetworkSpec& spec);

/// One tensor of parameters within the array that holds them all.
struct Parameter {
  /// "layers.0.weight" (outputs x inputs, as PyTorch has it) or "layers.0.bias" (outputs).
  std::string name;
  std::vector<std::int64_t> shape;
  /// First element, and how many there are.
  std::size_t offset = 0;
  std::size_t size = 0;
};

/// The parameters of a network that `check` has found right, weight and bias of each layer in turn. Each begins at a
/// multiple of 64 elements; what lies between two is zero and stays so.
[[nodiscard]] std::vector<Parameter> parameters_of(const NetworkSpec& spec);

/// Elements of the array that holds them.
[[nodiscard]] std::size_t parameter_elements(const NetworkSpec& spec);

/// How long loops over elements are cut for a device; see the kernels' headers.
struct Grain {
  /// Columns of a matrix that is worked on row by row, and of one whose columns are summed.
  std::uint64_t row_tile = 1;
  std::uint64_t column_tile = 1;
  /// Elements of an update.
  std::uint64_t chunk = 1;

  static Grain of(gpuactors::DeviceKind kind);
};

/// The network. Movable; used on the thread of its stream, which must outlive it. Everything that runs often is
/// allocated when it is made.
class Network {
public:
  /// Random parameters, uniform within 1/sqrt(inputs) of each layer; the seed decides them, on whatever device.
  /// @returns what `check` says, `out_of_memory`.
  static gpuactors::Result<Network> make(gpuactors::Stream& stream, const NetworkSpec& spec, std::uint64_t seed);

  /// The outputs (rows x outputs, no softmax) for x (rows x inputs), queued on the stream; `max_rows` rows at most.
  /// @returns `invalid_argument` with the shapes that do not fit.
  gpuactors::Result<void> forward(const gpuactors::Tensor& x, gpuactors::Tensor& logits);

  /// The same for the first `rows` rows behind two addresses on the device. Without `last_bias` the bias of the last
  /// layer is left to who uses the outputs, as the kernels of losses do.
  gpuactors::Result<void> forward(std::int64_t rows, const void* x, void* logits, bool last_bias = true);

  [[nodiscard]] const NetworkSpec& spec() const noexcept {
    return spec_;
  }

  [[nodiscard]] const std::vector<Parameter>& parameters() const noexcept {
    return parameters_;
  }

  /// All parameters, one after the other (`Parameter::offset`).
  [[nodiscard]] gpuactors::Tensor& values() noexcept {
    return values_;
  }

  /// The outputs of hidden layer `layer` in the last `forward`: what training goes back through.
  [[nodiscard]] void* hidden(std::size_t layer) const {
    return hidden_[layer].raw();
  }

  /// Address of parameter `index` on the device.
  [[nodiscard]] void* parameter(std::size_t index) const;

  [[nodiscard]] gpuactors::Stream& stream() const noexcept {
    return *stream_;
  }

private:
  Network(gpuactors::Stream& stream, const NetworkSpec& spec);

  template <class T>
  gpuactors::Result<void> initialize(std::uint64_t seed);
  template <class T>
  gpuactors::Result<void> finish_layer(std::size_t layer, std::int64_t rows, T* y, bool last_bias);

  gpuactors::Stream* stream_;
  NetworkSpec spec_;
  Grain grain_;
  std::vector<Parameter> parameters_;
  gpuactors::Tensor values_;
  std::vector<gpuactors::Tensor> hidden_;
};

} // namespace nn
