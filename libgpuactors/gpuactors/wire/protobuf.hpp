// The parts of Protobuf that the layers above use: messages, their descriptors, and the empty message.
#pragma once

#include <gpuactors/base/result.hpp>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/message.h>

#include <string>

namespace gpuactors {

/// The bytes of `message`, the same for equal messages, maps included: a key to compare by, not a wire format.
[[nodiscard]] std::string deterministic_bytes(const google::protobuf::Message& message);

/// Checks the strings of a message, those in the messages that it contains included: a receiver drops a message with a
/// string that is not UTF-8.
/// @returns `invalid_argument` with the name of the field.
[[nodiscard]] Result<void> check_texts(const google::protobuf::Message& message);

} // namespace gpuactors
