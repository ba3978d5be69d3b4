// Reads the "data" of a tensor from JSON: elements of every type, one after the other or nested as the shape says.
#pragma once

#include <apps/serve/protocol/json_in.hpp>
#include <apps/serve/service.hpp>

#include <cstddef>

namespace serve {

/// The bytes of a tensor whose name, type and shape are known.
/// @param most No JSON with more elements could be in the text.
/// @returns `invalid_argument` for elements of another type or beyond its range, another number of them, and nesting
///          that is not the shape's.
[[nodiscard]] gpuactors::Result<Bytes> read_data(json_in::Value value, const NamedTensor& tensor, std::size_t most);

} // namespace serve
