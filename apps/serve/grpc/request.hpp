// What a call of gRPC asks a model: its message, and the deadline of the call.
#pragma once

#include <apps/serve/protocol/front_state.hpp>

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>

namespace serve {

/// What a client has sent.
struct ReadRequest {
  /// Of the request, also of one that cannot be served; empty if it has none, or no message was read.
  std::string id;
  gpuactors::Result<InferRequest> request;
};

/// Reads a request, with the deadline of its call.
/// @param trace What its work is a part of.
[[nodiscard]] ReadRequest read_request(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& buffer,
                                       const gpuactors::TraceContext& trace, const std::shared_ptr<HeldBytes>& held);

/// Counts the bytes of an answer.
/// @returns `queue_full` when the server holds too much.
[[nodiscard]] gpuactors::Result<HeldShare> hold(const InferReply& reply, const std::shared_ptr<HeldBytes>& held);

/// Counts the bytes of one of many replies, unless it is small.
/// @returns `queue_full` when the server holds too much.
[[nodiscard]] gpuactors::Result<HeldShare> hold_item(const InferReply& reply, const std::shared_ptr<HeldBytes>& held);

} // namespace serve
