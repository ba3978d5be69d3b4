// Batches of gpuactors-serve for actors: the bytes of inputs and outputs, which large batches carry as shared tensors
// outside the message.
#pragma once

#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <cstddef>
#include <span>
#include <vector>

namespace gpuactors {

/// The inputs of a batch. Use it in `infer`, while the message lives; one thread at a time.
class ServedInputs {
public:
  /// Returns the inputs of `batch`; `tensors` is the actor's `tensors()`. Blocks until inputs that are tensors have
  /// arrived: mapped on the server's machine, copied elsewhere.
  /// @returns `task_failed`, with the error of `TensorStore::get`, for a tensor that cannot be fetched;
  ///          `out_of_memory`; `invalid_argument` for tensors whose elements are not bytes. Return such an error from
  ///          `infer`: it does not end the replica.
  static Result<ServedInputs> of(const v1::ReplicaBatch& batch, TensorStore& tensors);

  [[nodiscard]] std::size_t size() const noexcept {
    return views_.size();
  }

  /// Returns the elements of all rows of input `i`, as `ReplicaBatch` describes it.
  [[nodiscard]] std::span<const std::byte> operator[](std::size_t i) const {
    return views_[i];
  }

private:
  std::vector<Shared<Tensor>> kept_;
  std::vector<std::span<const std::byte>> views_;
};

/// The outputs of a reply: memory to fill, and then the message. One thread at a time.
class ServedOutputs {
public:
  /// Returns memory for one output of each size in `bytes`, undefined at first. `tensors` is the actor's `tensors()`.
  /// @returns `out_of_memory`, or `task_failed` with another error of `TensorStore::draft`.
  static Result<ServedOutputs> make(const std::vector<std::size_t>& bytes, TensorStore& tensors);

  /// Returns the memory of output `i`, for the elements of all rows, as `ReplicaReply` describes it.
  [[nodiscard]] std::span<std::byte> operator[](std::size_t i);

  /// Returns the reply. Do not write through spans of its outputs afterwards.
  [[nodiscard]] v1::ReplicaReply finish() &&;

private:
  v1::ReplicaReply reply_;
  std::vector<TensorDraft> drafts_;
};

} // namespace gpuactors
