// UTF-8, searching, stripping and dividing.
#include <gpuactors/base/utf8.hpp>

#include <apps/llm/chat/text.hpp>

#include <algorithm>
#include <cstring>

namespace llm::chat {

namespace {

bool is_inside(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

bool ends_line(char32_t character) {
  return (character >= 0x0A && character <= 0x0D) || (character >= 0x1C && character <= 0x1E) || character == 0x85
         || character == 0x2028 || character == 0x2029;
}

/// Whether strip takes the character away.
bool is_stripped(char32_t character, const std::optional<std::u32string>& characters) {
  return characters ? characters->find(character) != std::u32string::npos : is_blank(character);
}

std::optional<std::u32string> decode(std::optional<std::string_view> text) {
  if (!text)
    return std::nullopt;
  std::u32string characters;
  for (std::size_t at = 0; at < text->size();)
    characters += next_character(*text, at);
  return characters;
}

} // namespace

bool is_text(std::string_view bytes) {
  for (;;) {
    const auto end = bytes.find('\0');
    if (!gpuactors::is_utf8(bytes.substr(0, end)))
      return false;
    if (end == std::string_view::npos)
      return true;
    bytes.remove_prefix(end + 1);
  }
}

char32_t next_character(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80)
    return lead;
  char32_t character = lead < 0xE0 ? lead & 0x1FU : lead < 0xF0 ? lead & 0x0FU : lead & 0x07U;
  while (at < text.size() && is_inside(text[at]))
    character = character << 6U | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  return character;
}

char32_t previous_character(std::string_view text, std::size_t& at) {
  do
    --at;
  while (at > 0 && is_inside(text[at]));
  auto begin = at;
  return next_character(text, begin);
}

void append_character(std::string& text, char32_t character) {
  const auto add = [&](char32_t bits) { text += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (character < 0x80) {
    add(character);
    return;
  }
  if (character < 0x800) {
    add(0xC0U | character >> 6U);
  } else {
    if (character < 0x10000) {
      add(0xE0U | character >> 12U);
    } else {
      add(0xF0U | character >> 18U);
      add(0x80U | (character >> 12U & 0x3FU));
    }
    add(0x80U | (character >> 6U & 0x3FU));
  }
  add(0x80U | (character & 0x3FU));
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_inside(c); }));
}

std::size_t offset_of(std::string_view text, std::size_t number) {
  std::size_t at = 0;
  for (; number > 0 && at < text.size(); --number)
    next_character(text, at);
  return at;
}

std::size_t find_part(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size())
    return std::string_view::npos;
  if (part.empty())
    return from;
  if (part.size() > text.size() - from)
    return std::string_view::npos;
  // Unlike string_view::find, it does not compare the same bytes again and again.
  const auto* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

bool is_blank(char32_t character) {
  return (character >= 0x09 && character <= 0x0D) || (character >= 0x1C && character <= 0x20) || character == 0x85
         || character == 0xA0 || character == 0x1680 || (character >= 0x2000 && character <= 0x200A)
         || character == 0x2028 || character == 0x2029 || character == 0x202F || character == 0x205F
         || character == 0x3000;
}

std::string_view strip_left(std::string_view text, std::optional<std::string_view> characters) {
  const auto wanted = decode(characters);
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size() && is_stripped(next_character(text, at), wanted);)
    begin = at;
  return text.substr(begin);
}

std::string_view strip_right(std::string_view text, std::optional<std::string_view> characters) {
  const auto wanted = decode(characters);
  std::size_t end = text.size();
  for (std::size_t at = end; at > 0 && is_stripped(previous_character(text, at), wanted);)
    end = at;
  return text.substr(0, end);
}

std::string_view next_line(std::string_view text, std::size_t& at) {
  const auto begin = at;
  while (at < text.size()) {
    const auto end = at;
    const auto character = next_character(text, at);
    if (!ends_line(character))
      continue;
    if (character == '\r' && at < text.size() && text[at] == '\n')
      ++at;
    return text.substr(begin, end - begin);
  }
  return text.substr(begin);
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at < text.size();)
    lines.push_back(next_line(text, at));
  return lines;
}

} // namespace llm::chat
