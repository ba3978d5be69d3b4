// Text out of bytes that programs write: UTF-8, whatever they wrote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuactors {

/// Returns `bytes` with U+FFFD in place of each byte that is not part of UTF-8, and of NUL, for which grep would take
/// a file for a binary one. Any thread.
[[nodiscard]] std::string to_utf8(std::string_view bytes);

/// Whether `text` is UTF-8 without NUL. Any thread.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// The number of bytes at the end of `text` that begin a character whose rest is missing. Any thread.
[[nodiscard]] std::size_t begun_at_end(std::string_view text);

} // namespace gpuactors
