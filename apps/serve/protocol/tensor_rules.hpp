// What must hold for every tensor that comes in: its dimensions, and that its bytes are as many as they say.
#pragma once

#include <apps/serve/service.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace serve {

/// Renders "[2,-1]".
[[nodiscard]] std::string to_string(std::span<const std::int64_t> shape);

/// Inputs of one request, and outputs that it may name.
inline constexpr std::size_t most_tensors = 1'024;

/// Bytes of a request's id, which its answer repeats.
inline constexpr std::size_t longest_id = 1'024;

/// @returns `invalid_argument` for a longer one.
[[nodiscard]] gpuactors::Result<void> check_id(std::string_view id);

/// How sentences name a tensor: `input "x"`. What is too long to be a name is cut.
[[nodiscard]] std::string input_name(std::string_view name);

/// The elements that a shape has room for; a shape without dimensions has one.
/// @returns `invalid_argument`, beginning with `what`, for a negative dimension, more dimensions than a tensor may
///          have, and more elements than any request could carry.
[[nodiscard]] gpuactors::Result<std::uint64_t> count_elements(std::string_view what,
                                                              std::span<const std::int64_t> shape);

/// Reads the BYTES element at the front of `data` and takes it off; none when the rest does not hold it whole.
[[nodiscard]] std::optional<std::span<const std::byte>> take_bytes_element(std::span<const std::byte>& data) noexcept;

/// Bytes of a BYTES element.
[[nodiscard]] inline std::size_t bytes_element_size(std::string_view element) noexcept {
  return sizeof(std::uint32_t) + element.size();
}

/// Appends a BYTES element.
void append_bytes_element(std::string& data, std::string_view element);

/// Checks the shape, and that the data are exactly its elements. BYTES elements are walked through one by one.
/// @returns `invalid_argument`, beginning with `what`.
[[nodiscard]] gpuactors::Result<void> check_tensor(std::string_view what, const NamedTensor& tensor);

/// Whether a shape is what another one describes, which has -1 where any size goes.
[[nodiscard]] bool fits_shape(std::span<const std::int64_t> shape, std::span<const std::int64_t> described) noexcept;

/// Checks what holds for a whole request: it has inputs, and no input and no output is named twice or not at all.
/// @returns `invalid_argument`.
[[nodiscard]] gpuactors::Result<void> check_names(const InferRequest& request);

} // namespace serve
