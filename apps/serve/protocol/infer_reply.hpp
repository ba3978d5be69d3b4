// Writes the answers of inferences for HTTP: JSON, with raw tensors behind it.
#pragma once

#include <apps/serve/protocol/infer_request.hpp>
#include <apps/serve/protocol/text_room.hpp>
#include <apps/serve/service.hpp>

#include <string>
#include <vector>

namespace serve {

/// A body in pieces.
struct HttpReply {
  std::string json;
  /// The bytes that follow, in order.
  std::vector<Bytes> raw;
  /// Whether some output is raw, if only with 0 bytes: then the client must be told how long the JSON is.
  bool binary = false;
};

/// Appends the elements of an output as JSON, with commas between them.
/// @returns `invalid_argument`, naming the output, for what JSON has no form for; `no_capacity` without room.
[[nodiscard]] gpuactors::Result<void> append_elements(std::string& json, const NamedTensor& output, TextRoom& room);

/// @param share Grows with the JSON.
/// @returns `invalid_argument` for outputs that JSON has no form for: FP16, BF16, infinities, BYTES that are no text;
///          `no_capacity` where the share may not grow.
[[nodiscard]] gpuactors::Result<HttpReply> write_reply(const InferReply& reply, const OutputForm& form,
                                                       HeldShare& share);

} // namespace serve
