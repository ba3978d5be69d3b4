#include <gpuactors/base/utf8.hpp>

#include <algorithm>

namespace gpuactors {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

unsigned byte_at(std::string_view text, std::size_t index) {
  return static_cast<unsigned char>(text[index]);
}

/// Returns the length in bytes of a character that begins with `lead`; 0 if no character does.
std::size_t length_by(unsigned lead) {
  if (lead < 0x80)
    return 1;
  if (lead >= 0xC2 && lead <= 0xDF)
    return 2;
  if (lead >= 0xE0 && lead <= 0xEF)
    return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

bool is_continuation(unsigned byte) {
  return byte >= 0x80 && byte <= 0xBF;
}

/// Returns the length in bytes of the character at the start of `text`; 0 if there is no valid one.
std::size_t length_of(std::string_view text) {
  const auto lead = byte_at(text, 0);
  const auto length = length_by(lead);
  if (length == 0 || text.size() < length)
    return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!is_continuation(byte_at(text, i)))
      return 0;
  if (length < 3)
    return length;
  // Rejects overlong encodings, UTF-16 surrogates, and code points above U+10FFFF.
  const auto second = byte_at(text, 1);
  const bool wrong = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)
                     || (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
  return wrong ? 0 : length;
}

} // namespace

std::string to_utf8(std::string_view bytes) {
  std::string result;
  result.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto length = bytes[0] == '\0' ? 0 : length_of(bytes);
    result += length == 0 ? replacement : bytes.substr(0, length);
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const auto length = text[0] == '\0' ? 0 : length_of(text);
    if (length == 0)
      return false;
    text.remove_prefix(length);
  }
  return true;
}

std::size_t begun_at_end(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = byte_at(text, text.size() - back);
    if (!is_continuation(byte))
      return length_by(byte) > back ? back : 0;
  }
  return 0;
}

std::string_view head_of(std::string_view text, std::size_t most) {
  if (text.size() <= most)
    return text;
  const auto head = text.substr(0, most);
  return head.substr(0, head.size() - begun_at_end(head));
}

} // namespace gpuactors
