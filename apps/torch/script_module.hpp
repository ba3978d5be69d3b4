// A TorchScript module that answers batches of rows: loaded from bytes, checked, run once before it serves.
#pragma once

#include "lease_memory.hpp"
#include "replica_tensors.hpp"

#include <gpuactors/actor/served_batch.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace torchscript {

/// What a file does not say by itself.
struct ModuleOptions {
  /// For error texts: "model m, version 1".
  std::string title;
  /// In the order of the arguments of `forward`; each has a type.
  std::vector<NamedRows> inputs;
  /// Names of what `forward` answers, in its order, and what must be true of those that have a type. None: they are
  /// called "output", or "output_0", "output_1" and so on.
  std::vector<NamedRows> outputs;
  /// No batch has more rows; at least 1.
  std::int64_t max_rows = 1;
  /// Threads that libtorch's loops may use, with the caller's; at least 1.
  int threads = 1;
};

/// A module in evaluation mode, on the CPU.
///
/// One thread at a time may use it, always the one that loaded it: libtorch keeps the number of threads for each
/// thread of the program. No exception of libtorch leaves it. Memory of its tensors counts against a lease.
class ScriptModule {
public:
  /// Loads a file's bytes, which need not outlive the call, and runs the module with zeros: with one row, and with as
  /// many rows as a batch may have.
  /// @returns `invalid_argument` for bytes that are no TorchScript, a `forward` that does not take `options.inputs` or
  ///          does not answer rows as `options.outputs` say, and for an error in these runs, with its text;
  ///          `out_of_memory` if the lease has too little, with the numbers; `unsupported` if its memory cannot be
  ///          counted.
  static gpuactors::Result<ScriptModule> load(std::span<const std::uint8_t> file, ModuleOptions options,
                                              std::shared_ptr<gpuactors::Quota> quota);

  ScriptModule(ScriptModule&&) noexcept;
  ScriptModule& operator=(ScriptModule&&) noexcept;
  ~ScriptModule();

  [[nodiscard]] const std::vector<NamedRows>& inputs() const noexcept;

  /// Each has a type, found by the run with zeros.
  [[nodiscard]] const std::vector<NamedRows>& outputs() const noexcept;

  /// Returns how many threads libtorch's loops use on the calling thread.
  [[nodiscard]] int threads() const;

  /// Answers a batch; `tensors` is the actor's, for large ones.
  /// @returns `invalid_argument` for other rows or sizes than it takes, and for an error that the module raises, which
  ///          then lies in the values: it has answered zeros; `out_of_memory`; `task_failed` for outputs that are not
  ///          what they were with zeros.
  gpuactors::Result<gpuactors::v1::ReplicaReply> infer(const gpuactors::v1::ReplicaBatch& batch,
                                                       gpuactors::TensorStore& tensors);

private:
  struct State;

  explicit ScriptModule(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

} // namespace torchscript
