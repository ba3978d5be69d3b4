// Inference messages between gRPC's buffers and the models: raw tensors are copied once on their way in, and not at
// all on their way out.
#pragma once

#include <apps/serve/protocol/held_bytes.hpp>
#include <apps/serve/service.hpp>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string_view>

namespace inference {
class ModelInferRequest;
}

namespace serve {

/// Parses the message of a call. It is counted as held as long as somebody keeps it.
/// @returns `invalid_argument` for what is no such message, `queue_full` when the server holds too much.
[[nodiscard]] gpuactors::Result<std::shared_ptr<const inference::ModelInferRequest>>
parse_request(const grpc::ByteBuffer& buffer, const std::shared_ptr<HeldBytes>& held);

/// A ModelInferResponse, whose bytes are those of the reply itself.
[[nodiscard]] grpc::ByteBuffer response_of(const InferReply& reply);

/// A ModelStreamInferResponse with a reply, or with a sentence and the id of the request. As in Triton, a parameter
/// says whether it is the last one to its request.
[[nodiscard]] grpc::ByteBuffer stream_response_of(const InferReply& reply, bool last);
[[nodiscard]] grpc::ByteBuffer stream_error_of(const gpuactors::Error& error, std::string_view id, bool last);

[[nodiscard]] grpc::Status status_of(const gpuactors::Error& error);

} // namespace serve
