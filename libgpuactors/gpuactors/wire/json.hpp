// Messages as JSON, by the Protobuf JSON mapping, for the command line.
#pragma once

#include <gpuactors/wire/payload.hpp>

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace gpuactors {

/// Reads `json` as a message of the type `descriptor` (a type compiled into this program). Empty text is an empty
/// message.
/// @returns `invalid_argument` in one line, with the place and what is wrong there.
[[nodiscard]] Result<Payload> payload_from_json(const google::protobuf::Descriptor& descriptor, std::string_view json);

/// How to treat fields that the message's type does not have: they are mistakes of people, or new in the release of the
/// program that wrote them.
enum class UnknownFields { refused, ignored };

/// Reads `json` into an empty message of any type, as `payload_from_json` does.
[[nodiscard]] Result<void> message_from_json(google::protobuf::Message& message, std::string_view json,
                                             UnknownFields unknown = UnknownFields::refused);

/// Renders a message as JSON on one line, fields under the names of the .proto file, fields at their default included.
[[nodiscard]] Result<std::string> message_to_json(const google::protobuf::Message& message);

} // namespace gpuactors
