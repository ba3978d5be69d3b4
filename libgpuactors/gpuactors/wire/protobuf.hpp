// The parts of Protobuf that the layers above use: messages, their descriptors, and the empty message.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/message.h>

#include <string>

namespace gpuactors {

/// The bytes of `message`, the same for equal messages, maps included: a key to compare by, not a wire format.
[[nodiscard]] std::string deterministic_bytes(const google::protobuf::Message& message);

} // namespace gpuactors
