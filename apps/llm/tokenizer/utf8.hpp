// Characters of UTF-8. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llm::tokenizer {

/// What a text has at a position.
struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
};

/// Returns the character that begins at `at`, in text that is valid.
[[nodiscard]] inline Character character_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto rest = [&](std::size_t i) { return static_cast<char32_t>(byte(i) & 0x3FU); };
  const unsigned first = byte(0);
  if (first < 0x80)
    return {first, 1};
  if (first < 0xE0)
    return {((first & 0x1FU) << 6U) | rest(1), 2};
  if (first < 0xF0)
    return {((first & 0x0FU) << 12U) | (rest(1) << 6U) | rest(2), 3};
  return {((first & 0x07U) << 18U) | (rest(1) << 12U) | (rest(2) << 6U) | rest(3), 4};
}

/// Returns the character that ends before `end`, in text that is valid.
[[nodiscard]] inline Character character_before(std::string_view text, std::size_t end) noexcept {
  std::size_t at = end - 1;
  while ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U)
    --at;
  return character_at(text, at);
}

void append(std::string& text, char32_t code);

/// How far the bytes at the beginning of `bytes`, which is not empty, are a character.
struct Sequence {
  enum class Kind : std::uint8_t { whole, begun, wrong };
  Kind kind = Kind::wrong;
  /// Of the character; of what could have become one, otherwise, and at least 1.
  std::size_t bytes = 1;
};
[[nodiscard]] Sequence sequence_at(std::string_view bytes) noexcept;

/// Returns the position of the first byte that is part of no character; nothing for valid UTF-8, which may have NUL.
[[nodiscard]] std::optional<std::size_t> find_no_utf8(std::string_view text) noexcept;

/// Bytes that become text as they come: U+FFFD stands for each longest sequence of bytes that began a character and did
/// not go on, and for each byte that cannot begin one. So do Rust's String::from_utf8_lossy and the web's decoders.
class LossyUtf8 {
public:
  /// Adds what the bytes complete to `text`: whole characters only.
  void take(std::string_view bytes, std::string& text);

  /// Adds what is left, a character that did not go on.
  void finish(std::string& text);

private:
  std::string begun_;
};

inline constexpr std::string_view replacement = "\xEF\xBF\xBD";

} // namespace llm::tokenizer
