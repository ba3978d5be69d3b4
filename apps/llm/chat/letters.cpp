// Which characters have a case, and which are shown as they are: what is the same in all versions of Unicode.
#include <apps/llm/chat/text.hpp>

#include <algorithm>
#include <array>

namespace llm::chat {

namespace {

struct Span {
  char32_t first, last;
};

// Scripts, signs and symbols without capitals.
constexpr std::array caseless = {
    Span{0x0080, 0x00B4}, Span{0x00B6, 0x00BF}, Span{0x00D7, 0x00D7},   Span{0x00F7, 0x00F7},   Span{0x02B9, 0x02FF},
    Span{0x0590, 0x109F}, Span{0x1100, 0x139F}, Span{0x1400, 0x1C7F},   Span{0x2000, 0x20FF},   Span{0x2190, 0x23FF},
    Span{0x2500, 0x2BFF}, Span{0x2E80, 0xA63F}, Span{0xA960, 0xA97F},   Span{0xAC00, 0xD7FF},   Span{0xE000, 0xFAFF},
    Span{0xFE00, 0xFF20}, Span{0xFF5B, 0xFFEF}, Span{0x1F000, 0x1FAFF}, Span{0x20000, 0x3134F},
};

constexpr std::array shown = {
    Span{0x0020, 0x007E}, Span{0x00A1, 0x00AC}, Span{0x00AE, 0x0377},   Span{0x03A3, 0x052F},   Span{0x05D0, 0x05EA},
    Span{0x0620, 0x06DC}, Span{0x0900, 0x0983}, Span{0x0E01, 0x0E3A},   Span{0x0E3F, 0x0E5B},   Span{0x10D0, 0x1248},
    Span{0x13A0, 0x13F5}, Span{0x1E00, 0x1F15}, Span{0x2010, 0x2027},   Span{0x2030, 0x205E},   Span{0x20A0, 0x20BF},
    Span{0x2100, 0x218B}, Span{0x2190, 0x2426}, Span{0x2460, 0x2B73},   Span{0x3001, 0x303F},   Span{0x3041, 0x3096},
    Span{0x3099, 0x30FF}, Span{0x3131, 0x318E}, Span{0x3400, 0x4DB5},   Span{0x4E00, 0x9FEF},   Span{0xAC00, 0xD7A3},
    Span{0xFE00, 0xFE0F}, Span{0xFF01, 0xFFBE}, Span{0x1F300, 0x1F6D5}, Span{0x1F910, 0x1F93E}, Span{0x1F947, 0x1F970},
};

// Blanks and what controls, marks or belongs to nobody.
constexpr std::array hidden = {
    Span{0x0000, 0x001F}, Span{0x007F, 0x00A0}, Span{0x00AD, 0x00AD}, Span{0x2000, 0x200F}, Span{0x2028, 0x202F},
    Span{0x205F, 0x2064}, Span{0x3000, 0x3000}, Span{0xE000, 0xF8FF}, Span{0xFEFF, 0xFEFF},
};

template <std::size_t N>
bool lies_among(const std::array<Span, N>& spans, char32_t character) {
  return std::any_of(spans.begin(), spans.end(),
                     [&](const Span& span) { return character >= span.first && character <= span.last; });
}

bool lies(char32_t character, char32_t first, char32_t last) {
  return character >= first && character <= last;
}

/// Whether it is one of the Latin letters that follow each other in pairs, and whether it is the capital of its pair.
std::optional<bool> is_capital_of_pair(char32_t c) {
  if ((lies(c, 0x100, 0x137) && c != 0x130 && c != 0x131) || lies(c, 0x14A, 0x177) || lies(c, 0x1A0, 0x1A5)
      || lies(c, 0x1E00, 0x1E95) || lies(c, 0x1EA0, 0x1EFF))
    return c % 2 == 0;
  if (lies(c, 0x139, 0x148) || lies(c, 0x179, 0x17E) || lies(c, 0x1AF, 0x1B0))
    return c % 2 == 1;
  return std::nullopt;
}

std::optional<char32_t> lower(char32_t c) {
  if (c < 0x80)
    return lies(c, 'A', 'Z') ? c + 32 : c;
  if (lies_among(caseless, c))
    return c;
  if (lies(c, 0xC0, 0xDE) || lies(c, 0x410, 0x42F) || (lies(c, 0x391, 0x3A9) && c != 0x3A2 && c != 0x3A3))
    return c + 32;
  if (c == 0xB5 || lies(c, 0xDF, 0xFF) || lies(c, 0x430, 0x45F) || lies(c, 0x3B1, 0x3C9))
    return c;
  if (lies(c, 0x400, 0x40F))
    return c + 80;
  if (const auto is_capital = is_capital_of_pair(c))
    return c + (*is_capital ? 1 : 0);
  return c == 0x178 ? std::optional<char32_t>{0xFF} : std::nullopt;
}

std::optional<char32_t> upper(char32_t c) {
  if (c < 0x80)
    return lies(c, 'a', 'z') ? c - 32 : c;
  if (lies_among(caseless, c))
    return c;
  if (lies(c, 0xE0, 0xFE) || lies(c, 0x430, 0x44F) || (lies(c, 0x3B1, 0x3C9) && c != 0x3C2))
    return c - 32;
  if (lies(c, 0xC0, 0xDE) || lies(c, 0x400, 0x42F) || (lies(c, 0x391, 0x3A9) && c != 0x3A2))
    return c;
  if (lies(c, 0x450, 0x45F))
    return c - 80;
  if (const auto is_capital = is_capital_of_pair(c))
    return c - (*is_capital ? 0 : 1);
  if (c == 0xFF || c == 0x178)
    return 0x178;
  return c == 0xB5 ? std::optional<char32_t>{0x39C} : std::nullopt;
}

std::optional<std::string> change(std::string_view text, std::optional<char32_t> (*to)(char32_t)) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto changed = to(next_character(text, at));
    if (!changed)
      return std::nullopt;
    append_character(result, *changed);
  }
  return result;
}

} // namespace

std::optional<std::string> to_upper(std::string_view text) {
  return change(text, upper);
}

std::optional<std::string> to_lower(std::string_view text) {
  return change(text, lower);
}

std::optional<bool> is_printable(char32_t character) {
  if (lies_among(shown, character))
    return true;
  return lies_among(hidden, character) ? std::optional{false} : std::nullopt;
}

} // namespace llm::chat
