// Training a network on a device: gradients by back-propagation, and the optimizers that follow them.
//
// Nothing here waits for the device or allocates in a step: losses stay on the device until somebody fetches them.
#pragma once

#include "network.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace nn {

enum class Loss : std::uint8_t {
  /// Of the softmax over the outputs; targets are labels (i32, one a row).
  cross_entropy,
  /// Mean over rows and outputs; targets are rows x outputs of the network's type.
  mean_squared_error,
};

enum class OptimizerKind : std::uint8_t { sgd, adam };

[[nodiscard]] std::string_view to_string(Loss loss) noexcept;
[[nodiscard]] std::string_view to_string(OptimizerKind kind) noexcept;

/// How parameters follow their gradients, in PyTorch's terms. A plain value.
struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  double rate = 0.01;
  /// Of the parameters' squares, added to their gradients; biases included.
  double weight_decay = 0;
  /// SGD.
  double momentum = 0;
  /// Adam.
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;

  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

/// Whether a network that computes in `dtype` can use these numbers: they may round to others there.
/// @returns `invalid_argument` with the number that is out of range.
gpuactors::Result<void> check(const Optimizer& optimizer, gpuactors::DType dtype);

/// What is trained, and how. A plain value.
struct TrainerSpec {
  NetworkSpec network;
  Loss loss = Loss::cross_entropy;
  Optimizer optimizer;

  friend bool operator==(const TrainerSpec&, const TrainerSpec&) = default;
};

/// Rows to learn from, all on the device. Addresses must stay until the work is done.
struct Batch {
  /// At most `NetworkSpec::max_rows`.
  std::int64_t rows = 0;
  /// Inputs, rows x inputs.
  const void* x = nullptr;
  /// Labels or targets, see `Loss`.
  const void* targets = nullptr;
  /// Which rows of x and targets (i32); null means the first ones.
  const std::int32_t* order = nullptr;
  /// What the mean is taken over: 0 means `rows`, more if others work on the rest of the batch.
  std::int64_t total_rows = 0;
  /// Takes the loss of each row, in the network's type.
  void* losses = nullptr;
};

/// A network, its gradients and the memory of its optimizer. Movable; used on the thread of its stream.
class Trainer {
public:
  /// @returns what the two `check` say, `out_of_memory`.
  static gpuactors::Result<Trainer> make(gpuactors::Stream& stream, const TrainerSpec& spec, std::uint64_t seed);

  /// Queues one step: gradients of the batch's mean loss, then the update.
  /// @returns `invalid_argument` for a number of rows that the network does not take.
  gpuactors::Result<void> step(const Batch& batch);

  /// The first half of a step: leaves the gradients in `gradient()`.
  gpuactors::Result<void> compute_gradient(const Batch& batch);

  /// The second half: follows `gradient()`, which may have been changed in between.
  gpuactors::Result<void> update();

  /// Sets `gradient()` to zero, for who has no rows of a batch that others work on.
  gpuactors::Result<void> clear_gradient();

  [[nodiscard]] const TrainerSpec& spec() const noexcept {
    return spec_;
  }

  [[nodiscard]] Network& network() noexcept {
    return network_;
  }

  /// Gradients in the layout of the parameters.
  [[nodiscard]] gpuactors::Tensor& gradient() noexcept {
    return gradient_;
  }

  /// What the optimizer remembers, each in the layout of the parameters: "momentum" of SGD with momentum, "first" and
  /// "second" of Adam.
  struct Memory {
    std::string_view name;
    gpuactors::Tensor values;
  };

  [[nodiscard]] std::vector<Memory>& memory() noexcept {
    return memory_;
  }

  /// Updates that were made.
  [[nodiscard]] std::uint64_t steps() const noexcept {
    return steps_;
  }

  /// Goes on as if so many updates had been made; parameters and memory are set by who calls it.
  void set_steps(std::uint64_t steps) noexcept {
    steps_ = steps;
  }

private:
  Trainer(Network network, const TrainerSpec& spec) : spec_(spec), network_(std::move(network)) {
    // nop
  }

  template <class T>
  gpuactors::Result<void> find_gradient_as(const Batch& batch);
  template <class T>
  gpuactors::Result<void> find_loss(const Batch& batch);
  template <class T>
  gpuactors::Result<void> finish_gradients(std::size_t layer, std::int64_t rows);
  gpuactors::Result<void> weight_gradient(std::size_t layer, std::int64_t rows, const void* input);
  gpuactors::Result<void> pass_back(std::size_t layer, std::int64_t rows);
  template <class T>
  gpuactors::Result<void> update_as();

  [[nodiscard]] void* gradient_of(std::size_t parameter) const;

  TrainerSpec spec_;
  Network network_;
  Grain grain_;
  gpuactors::Tensor gradient_;
  std::vector<Memory> memory_;
  /// The rows of the batch, in order, and the gradients of the outputs of each layer.
  gpuactors::Tensor x_;
  std::vector<gpuactors::Tensor> output_gradients_;
  std::uint64_t steps_ = 0;
};

} // namespace nn
