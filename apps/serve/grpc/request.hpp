// What a call of gRPC asks a model: its message, and the deadline of the call.
#pragma once

#include <apps/serve/protocol/front_state.hpp>

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>

namespace serve {

/// Reads a request; its timeout is not longer than the call may still take.
[[nodiscard]] gpuactors::Result<InferRequest> read_request(const grpc::CallbackServerContext& context,
                                                           const grpc::ByteBuffer& buffer,
                                                           const std::shared_ptr<HeldBytes>& held);

/// Counts the bytes of an answer.
/// @returns `queue_full` when the server holds too much.
[[nodiscard]] gpuactors::Result<HeldShare> hold(const InferReply& reply, const std::shared_ptr<HeldBytes>& held);

/// Counts the bytes of one of many replies, unless it is small.
/// @returns `queue_full` when the server holds too much.
[[nodiscard]] gpuactors::Result<HeldShare> hold_item(const InferReply& reply, const std::shared_ptr<HeldBytes>& held);

} // namespace serve
