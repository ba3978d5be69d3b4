// The parts of Protobuf that the layers above use: messages, their descriptors, and the empty message.
#pragma once

#include <gpuactors/base/result.hpp>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/message.h>

#include <string>

namespace gpuactors {

/// Returns the bytes of `message`, identical for equal messages, maps included. Use them as a key for comparison, not
/// as a wire format.
[[nodiscard]] std::string deterministic_bytes(const google::protobuf::Message& message);

/// Checks that all strings of a message, including those of nested messages, are UTF-8: a receiver drops a message with
/// a string that is not.
/// @returns `invalid_argument` with the name of the field.
[[nodiscard]] Result<void> check_texts(const google::protobuf::Message& message);

} // namespace gpuactors
