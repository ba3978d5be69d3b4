// Bytes written as visible characters, as GPT-2's vocabulary has them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace llm::tokenizer {

/// Adds a character for each byte: for a visible one of Latin-1 itself, for others one from U+0100 on.
void append_byte_level(std::string& text, std::string_view bytes);

/// Returns the bytes that characters stand for; nothing if one of them stands for none.
[[nodiscard]] std::optional<std::string> bytes_of_byte_level(std::string_view text);

} // namespace llm::tokenizer
