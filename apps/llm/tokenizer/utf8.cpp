// Reading bytes as UTF-8, as the Unicode standard's table 3-7 has it.
#include <apps/llm/tokenizer/utf8.hpp>

namespace llm::tokenizer {

void append(std::string& text, char32_t code) {
  const auto add = [&](char32_t bits) { text += static_cast<char>(bits); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0U | (code >> 6U));
    add(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    add(0xE0U | (code >> 12U));
    add(0x80U | ((code >> 6U) & 0x3FU));
    add(0x80U | (code & 0x3FU));
  } else {
    add(0xF0U | (code >> 18U));
    add(0x80U | ((code >> 12U) & 0x3FU));
    add(0x80U | ((code >> 6U) & 0x3FU));
    add(0x80U | (code & 0x3FU));
  }
}

Sequence sequence_at(std::string_view bytes) noexcept {
  using Kind = Sequence::Kind;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned first = byte(0);
  if (first < 0x80)
    return {Kind::whole, 1};
  if (first < 0xC2 || first > 0xF4)
    return {Kind::wrong, 1};
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte leaves out longer forms than needed, surrogates, and what is above U+10FFFF.
  const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size())
      return {Kind::begun, i};
    if (byte(i) < (i == 1 ? least : 0x80) || byte(i) > (i == 1 ? most : 0xBF))
      return {Kind::wrong, i};
  }
  return {Kind::whole, length};
}

std::optional<std::size_t> find_no_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const auto sequence = sequence_at(text.substr(at));
    if (sequence.kind != Sequence::Kind::whole)
      return at;
    at += sequence.bytes;
  }
  return std::nullopt;
}

void LossyUtf8::take(std::string_view bytes, std::string& text) {
  begun_ += bytes;
  std::size_t at = 0;
  while (at < begun_.size()) {
    const auto rest = std::string_view{begun_}.substr(at);
    const auto sequence = sequence_at(rest);
    if (sequence.kind == Sequence::Kind::begun)
      break;
    text += sequence.kind == Sequence::Kind::whole ? rest.substr(0, sequence.bytes) : replacement;
    at += sequence.bytes;
  }
  begun_.erase(0, at);
}

void LossyUtf8::finish(std::string& text) {
  if (!begun_.empty())
    text += replacement;
  begun_.clear();
}

} // namespace llm::tokenizer
