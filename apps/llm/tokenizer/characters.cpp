// Asking ICU.
#include <apps/llm/tokenizer/characters.hpp>

#include <unicode/uchar.h>

namespace llm::tokenizer {

bool is_blank(char32_t code) {
  return u_hasBinaryProperty(static_cast<UChar32>(code), UCHAR_WHITE_SPACE) != 0;
}

bool is_word_character(char32_t code) {
  const auto character = static_cast<UChar32>(code);
  return u_hasBinaryProperty(character, UCHAR_ALPHABETIC) != 0
         || u_hasBinaryProperty(character, UCHAR_JOIN_CONTROL) != 0
         || (U_MASK(u_charType(character)) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

bool is_number(char32_t code) {
  return (U_MASK(u_charType(static_cast<UChar32>(code))) & U_GC_N_MASK) != 0;
}

} // namespace llm::tokenizer
