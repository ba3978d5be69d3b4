// Text as Python takes it: characters are code points, blanks and letters are those of Unicode. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llm::chat {

/// Whether it is UTF-8; NUL is a character like others. All other functions take such text only.
[[nodiscard]] bool is_text(std::string_view bytes);

/// Returns the character at `at`, and moves `at` behind it.
char32_t next_character(std::string_view text, std::size_t& at);

/// Returns the character before `at`, and moves `at` to where it begins.
char32_t previous_character(std::string_view text, std::size_t& at);

void append_character(std::string& text, char32_t character);

[[nodiscard]] std::size_t count_characters(std::string_view text);

/// Returns where the character with this number begins; the size of the text if it has no more.
[[nodiscard]] std::size_t offset_of(std::string_view text, std::size_t number);

/// Returns where `part` lies at `from` or behind, or npos. In time that grows with the sum of both lengths only.
[[nodiscard]] std::size_t find_part(std::string_view text, std::string_view part, std::size_t from = 0);

/// Whether Python's str.isspace says so of the character.
[[nodiscard]] bool is_blank(char32_t character);

/// Returns the text without blanks, or without these characters, at its ends.
[[nodiscard]] std::string_view strip_left(std::string_view text, std::optional<std::string_view> characters = {});
[[nodiscard]] std::string_view strip_right(std::string_view text, std::optional<std::string_view> characters = {});

/// Returns the line that begins at `at`, without its end, and moves `at` to the next one. The text has not ended there.
[[nodiscard]] std::string_view next_line(std::string_view text, std::size_t& at);

/// Returns the lines, without their ends, as Python's str.splitlines divides them.
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text);

/// Returns the text in other letters; null if it has a letter whose other case depends on more than itself, or is of a
/// script that this library has no table of.
[[nodiscard]] std::optional<std::string> to_upper(std::string_view text);
[[nodiscard]] std::optional<std::string> to_lower(std::string_view text);

/// Whether Python's repr shows the character as it is; null if versions of Unicode may differ about it.
[[nodiscard]] std::optional<bool> is_printable(char32_t character);

} // namespace llm::chat
