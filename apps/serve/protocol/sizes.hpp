// How many bytes requests and replies keep.
#pragma once

#include <apps/serve/service.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <variant>

namespace serve {

[[nodiscard]] inline std::size_t bytes_of(std::span<const NamedTensor> tensors) noexcept {
  std::size_t bytes = 0;
  for (const auto& tensor : tensors)
    bytes += tensor.data.size();
  return bytes;
}

[[nodiscard]] inline std::size_t bytes_of(const InferReply& reply) noexcept {
  return bytes_of(reply.outputs);
}

/// Of the inputs and parameters, the parts that clients make large.
[[nodiscard]] inline std::size_t bytes_of(const InferRequest& request) noexcept {
  auto bytes = bytes_of(request.inputs);
  for (const auto& parameter : request.parameters) {
    const auto* text = std::get_if<std::string>(&parameter.second);
    bytes += sizeof parameter + parameter.first.size() + (text != nullptr ? text->size() : 0);
  }
  return bytes;
}

/// Documents of JSON up to this size share a parser, whose memory stays: a few times as much for each thread.
inline constexpr std::size_t shared_parser_bytes = 256U << 10;

/// About what it takes to read JSON of that size, beside its text and what is read: 4 bytes for each bracket, comma and
/// value, and a copy of its strings.
[[nodiscard]] inline std::size_t reading_bytes(std::size_t json) noexcept {
  return json <= shared_parser_bytes ? 0 : 5 * json;
}

} // namespace serve
