// The table of bytes and characters.
#include <apps/llm/tokenizer/byte_level.hpp>
#include <apps/llm/tokenizer/utf8.hpp>

#include <array>

namespace llm::tokenizer {

namespace {

constexpr bool is_visible(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte)
    characters[byte] = is_visible(byte) ? byte : next++;
  return characters;
}

constexpr auto characters = make_characters();

/// Above the last character that stands for a byte.
constexpr std::size_t end_of_characters = 0x100 + 68;

constexpr std::array<int, end_of_characters> make_bytes() {
  std::array<int, end_of_characters> bytes{};
  bytes.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte)
    bytes.at(characters[byte]) = static_cast<int>(byte);
  return bytes;
}

constexpr auto bytes_by_character = make_bytes();

} // namespace

void append_byte_level(std::string& text, std::string_view bytes) {
  for (const char byte : bytes)
    append(text, characters[static_cast<unsigned char>(byte)]);
}

std::optional<std::string> bytes_of_byte_level(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    if (character.code >= end_of_characters || bytes_by_character[character.code] < 0)
      return std::nullopt;
    bytes += static_cast<char>(bytes_by_character[character.code]);
    at += character.bytes;
  }
  return bytes;
}

} // namespace llm::tokenizer
