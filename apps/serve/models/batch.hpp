// A batch of requests as replicas get it, and their reply, wherever the bytes lie.
#pragma once

#include "replica.hpp"

#include <apps/serve/service.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace serve {

/// The spans are bytes of the requests: valid during the call that the batch is given to.
struct Batch {
  std::uint64_t rows = 0;
  /// For each input of the model, the bytes of each request, in the order of their rows.
  std::vector<std::vector<std::span<const std::byte>>> inputs;
  /// Of models with sequences, one for each request.
  std::vector<wire::ReplicaSequence> sequences;
};

/// The bytes of each output, all rows, and how long the parts of the work took.
struct BatchReply {
  std::vector<Bytes> outputs;
  std::chrono::nanoseconds input{};
  std::chrono::nanoseconds infer{};
  std::chrono::nanoseconds output{};
};

/// Has a replica infer a batch, and calls back once with the answer, on any thread.
using BatchDone = std::function<void(gpuactors::Result<BatchReply>)>;
using RunBatch = std::function<void(const Batch&, BatchDone)>;

/// Bytes of all inputs together.
[[nodiscard]] std::size_t bytes_of(const Batch& batch) noexcept;

/// The batch as a message with all that it carries, and the other way round. Pure.
[[nodiscard]] wire::ReplicaBatch message_of(const Batch& batch);
[[nodiscard]] BatchReply reply_of(wire::ReplicaReply message);

/// The same without inputs, and without outputs, whose bytes lie elsewhere.
[[nodiscard]] wire::ReplicaBatch head_of(const Batch& batch);
[[nodiscard]] BatchReply times_of(const wire::ReplicaReply& message);

/// Runs batches by a function that takes messages.
using MessageDone = std::function<void(gpuactors::Result<wire::ReplicaReply>)>;
[[nodiscard]] RunBatch by_messages(std::function<void(wire::ReplicaBatch, MessageDone)> run);

} // namespace serve
