// What kinds of characters there are, by Unicode's properties as ICU has them. Pure.
#pragma once

namespace llm::tokenizer {

/// White_Space.
[[nodiscard]] bool is_blank(char32_t code);

/// Letters, marks, digits, connectors and joiners: what `\w` of Rust's regular expressions matches.
[[nodiscard]] bool is_word_character(char32_t code);

/// Numbers of all kinds, also such as a half.
[[nodiscard]] bool is_number(char32_t code);

} // namespace llm::tokenizer
