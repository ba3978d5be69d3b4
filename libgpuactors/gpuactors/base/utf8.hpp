// Turns arbitrary bytes, such as program output, into valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuactors {

/// Returns `bytes` with U+FFFD in place of each byte that is not part of a UTF-8 character, and in place of NUL,
/// because grep takes a file with NUL for a binary one. Any thread.
[[nodiscard]] std::string to_utf8(std::string_view bytes);

/// Returns whether `text` is valid UTF-8 without NUL. Any thread.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Returns the number of bytes at the end of `text` that begin a character whose rest is missing. Any thread.
[[nodiscard]] std::size_t begun_at_end(std::string_view text);

/// Returns the first `most` bytes of `text`, or up to three fewer where a character would be cut. Any thread.
[[nodiscard]] std::string_view head_of(std::string_view text, std::size_t most);

} // namespace gpuactors
