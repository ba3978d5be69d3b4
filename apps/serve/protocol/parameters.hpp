// The parameters that requests may have: what is understood, and what is refused rather than passed over.
#pragma once

#include <apps/serve/service.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace serve {

/// What the parameter "timeout" means; 0 is none, so that the model's default holds. Longer than a year is one.
[[nodiscard]] std::optional<gpuactors::Duration> timeout_of(std::uint64_t microseconds) noexcept;

/// Bytes of a sequence's id.
inline constexpr std::size_t longest_sequence_id = 128;

/// The parameters of a request that say which sequence it is in.
inline constexpr std::array<std::string_view, 3> sequence_parameters{"sequence_id", "sequence_start", "sequence_end"};

/// The number of a parameter among `sequence_parameters`; none for others.
[[nodiscard]] std::optional<std::size_t> sequence_parameter(std::string_view name) noexcept;

/// Sets the id; a number is the text of its digits, and 0 is none. @returns `invalid_argument` for a longer one.
[[nodiscard]] gpuactors::Result<void> set_sequence_id(SequenceStep& step, std::uint64_t number);
[[nodiscard]] gpuactors::Result<void> set_sequence_id(SequenceStep& step, std::string text);

/// Checks what the parameters say together. @returns `invalid_argument` for a start or an end without an id.
[[nodiscard]] gpuactors::Result<void> check_sequence(const SequenceStep& step);

/// Refuses parameters that ask for what is not there and would change the answer: shared memory, classes; and those of
/// sequences in other places than among the request's.
/// @returns `invalid_argument`.
[[nodiscard]] gpuactors::Result<void> refuse_parameter(std::string_view name);

/// Whether a parameter is for the server, or reserved for it, and not for the model.
[[nodiscard]] bool is_for_server(std::string_view name) noexcept;

/// Parameters of one request, and the bytes of the names and texts of those that are for the model.
inline constexpr std::size_t most_parameters = 256;
inline constexpr std::size_t most_parameter_bytes = 64U << 10;

/// Adds a parameter that is for the model to `bytes`.
/// @param value As long as the text that it is; 0 for anything else.
/// @returns `invalid_argument` where they have more than `most_parameter_bytes` then.
[[nodiscard]] gpuactors::Result<void> count_parameter(std::string_view name, std::size_t value, std::size_t& bytes);

/// By which a client wants to be told of the end of a stream.
inline constexpr std::string_view wants_end_parameter = "triton_enable_empty_final_response";

/// The parameters that a load may have.
inline constexpr std::size_t most_load_parameters = 64;

/// @returns `invalid_argument` for more than that.
[[nodiscard]] gpuactors::Result<void> check_load_parameters(std::size_t count);

/// Reads {"parameters": {...}}, or nothing at all; numbers and booleans as JSON writes them. Any thread.
/// @param body `body_padding` bytes behind it may be read.
[[nodiscard]] gpuactors::Result<std::map<std::string, std::string>> read_repository_parameters(const Bytes& body);

/// Reads {"ready": true}, or nothing at all: whether only the models that are ready are wanted.
[[nodiscard]] gpuactors::Result<bool> read_index_request(const Bytes& body);

} // namespace serve
