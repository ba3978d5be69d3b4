// What is checked before a call or a request leaves the program, and requests for resources from the options of users.
// Internal to the cluster layer.
#pragma once

#include <gpuactors/actor/registry.hpp>
#include <gpuactors/cluster/options.hpp>

#include <cstdint>
#include <string>

namespace gpuactors::detail {

/// Checks a message for the broker, which cuts the connection of a client whose message it cannot read: the client
/// would send the message again on each new connection.
/// @returns `invalid_argument` for texts that are not UTF-8 and for more bytes than `limits::request_bytes`.
[[nodiscard]] Result<void> check_request(const google::protobuf::Message& message);

/// What a call asks for; a null `output` means any message.
struct Asked {
  const Payload& input;
  const google::protobuf::Descriptor* output;
  bool stream;
};

/// @returns why it does not fit what takes and gives these.
Error misfit(const std::string& what, const google::protobuf::Descriptor& takes,
             const google::protobuf::Descriptor& gives, bool streamed, const Asked& asked);

/// Checks the message types of a call against those of the task or method.
/// @param what returns a name of the task or method for the text of an error.
template <class Type, class Name>
Result<void> check_call(const Type& type, const Asked& asked, Name&& what) {
  const bool gives =
      asked.output == nullptr || asked.output == type.output || asked.output->full_name() == type.output->full_name();
  if (type.streamed == asked.stream && gives && asked.input.is_a(*type.input)) [[likely]]
    return {};
  return fail(misfit(what(), *type.input, *type.output, type.streamed, asked));
}

/// A limit in whole milliseconds, rounded up, at least 1: in messages, 0 means that there is none.
[[nodiscard]] std::uint64_t to_limit_ms(Duration limit) noexcept;

/// Converts options to a resource request.
/// @returns `invalid_argument` with the rule that is broken.
[[nodiscard]] Result<v1::ResourceRequest> to_request(const Options& options, const Needs& needs,
                                                     const std::string& default_name);

} // namespace gpuactors::detail
