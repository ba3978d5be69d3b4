#include "batch.hpp"

#include <memory>
#include <utility>

namespace serve {

namespace {

std::size_t bytes_of(const std::vector<std::span<const std::byte>>& parts) noexcept {
  std::size_t bytes = 0;
  for (const auto& part : parts)
    bytes += part.size();
  return bytes;
}

} // namespace

std::size_t bytes_of(const Batch& batch) noexcept {
  std::size_t bytes = 0;
  for (const auto& input : batch.inputs)
    bytes += bytes_of(input);
  return bytes;
}

wire::ReplicaBatch head_of(const Batch& batch) {
  wire::ReplicaBatch message;
  message.set_rows(static_cast<std::int64_t>(batch.rows));
  for (const auto& sequence : batch.sequences)
    *message.add_sequences() = sequence;
  return message;
}

wire::ReplicaBatch message_of(const Batch& batch) {
  auto message = head_of(batch);
  for (const auto& input : batch.inputs) {
    auto& bytes = *message.add_inputs();
    bytes.reserve(bytes_of(input));
    for (const auto& part : input)
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return message;
}

BatchReply times_of(const wire::ReplicaReply& message) {
  BatchReply reply;
  reply.input = std::chrono::nanoseconds{message.input_ns()};
  reply.infer = std::chrono::nanoseconds{message.infer_ns()};
  reply.output = std::chrono::nanoseconds{message.output_ns()};
  return reply;
}

BatchReply reply_of(wire::ReplicaReply message) {
  auto reply = times_of(message);
  const auto kept = std::make_shared<const wire::ReplicaReply>(std::move(message));
  for (const auto& output : kept->outputs())
    reply.outputs.emplace_back(kept, std::as_bytes(std::span{output}));
  return reply;
}

RunBatch by_messages(std::function<void(wire::ReplicaBatch, MessageDone)> run) {
  return [run = std::move(run)](const Batch& batch, BatchDone done) {
    run(message_of(batch), [done = std::move(done)](gpuactors::Result<wire::ReplicaReply> reply) {
      if (reply)
        done(reply_of(std::move(*reply)));
      else
        done(gpuactors::fail(reply.error()));
    });
  };
}

} // namespace serve
