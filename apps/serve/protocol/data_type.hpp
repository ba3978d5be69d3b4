// Names and sizes of the protocol's element types.
#pragma once

#include <apps/serve/service.hpp>

#include <cstddef>
#include <optional>
#include <string_view>

namespace serve {

/// The name on the wire, for example "FP32".
[[nodiscard]] std::string_view to_string(DataType type) noexcept;

/// The type of that name, exactly as the protocol spells it.
[[nodiscard]] std::optional<DataType> parse_data_type(std::string_view name) noexcept;

/// Bytes of one element; 0 for BYTES, whose elements differ.
[[nodiscard]] std::size_t element_bytes(DataType type) noexcept;

} // namespace serve
