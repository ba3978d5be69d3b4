// Calls of one small message and one answer.
#pragma once

#include <apps/serve/grpc/message_call.hpp>

#include <google/protobuf/message_lite.h>

#include <functional>
#include <memory>

namespace serve {

/// Answers the bytes of a message with those of another, or with a status that is not OK.
using AnswerSmall = std::function<grpc::Status(const grpc::ByteBuffer& message, grpc::ByteBuffer& response)>;

/// @returns `invalid_argument` for what is no such message.
[[nodiscard]] gpuactors::Result<void> parse_small(const grpc::ByteBuffer& bytes,
                                                  google::protobuf::MessageLite& message);

[[nodiscard]] grpc::ByteBuffer bytes_of(const google::protobuf::MessageLite& message);

/// Reads the message and answers it.
[[nodiscard]] CallReactor* answer_small(const std::shared_ptr<GrpcState>& state, grpc::CallbackServerContext& context,
                                        Caller caller, AnswerSmall answer);

/// The same, on a thread that may be kept waiting.
[[nodiscard]] CallReactor* answer_small_later(const std::shared_ptr<GrpcState>& state,
                                              grpc::CallbackServerContext& context, AnswerSmall answer);

} // namespace serve
