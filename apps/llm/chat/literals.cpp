// What Jinja's lexer takes for a number, and what Python makes of backslashes.
#include <apps/llm/chat/lexer.hpp>
#include <apps/llm/chat/literals.hpp>
#include <apps/llm/chat/text.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace llm::chat {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Digits with single _ between them, from `at` on. @returns where they end.
std::size_t skip_digits(std::string_view source, std::size_t at) {
  const auto digit_at = [&](std::size_t i) { return i < source.size() && is_digit(source[i]); };
  while (digit_at(at) || (at < source.size() && source[at] == '_' && digit_at(at + 1)))
    ++at;
  return at;
}

/// Where a number with a point or an exponent ends; where it begins if there is none.
std::size_t skip_fraction(std::string_view source, std::size_t begin) {
  const auto has_digit = [&](std::size_t i) { return i < source.size() && is_digit(source[i]); };
  const auto whole = skip_digits(source, begin);
  auto end = begin;
  auto at = whole;
  if (at < source.size() && source[at] == '.' && has_digit(at + 1))
    end = at = skip_digits(source, at + 1);
  if (at < source.size() && (source[at] == 'e' || source[at] == 'E')) {
    const auto sign = at + 1;
    const bool has_sign = sign < source.size() && (source[sign] == '+' || source[sign] == '-');
    if (const auto exponent = sign + (has_sign ? 1 : 0); has_digit(exponent))
      end = skip_digits(source, exponent);
  }
  return end;
}

template <class Number>
bool parse(std::string_view digits, Number& number) {
  std::string plain;
  for (const char c : digits)
    if (c != '_')
      plain += c;
  const auto* end = plain.data() + plain.size();
  const auto [at, error] = std::from_chars(plain.data(), end, number);
  return error == std::errc{} && at == end;
}

/// A character by its number, written with so many digits.
std::optional<char32_t> read_code(std::string_view source, std::size_t at, std::size_t digits, int base) {
  std::uint32_t code = 0;
  const auto* begin = source.data() + std::min(at, source.size());
  const auto* end = source.data() + std::min(at + digits, source.size());
  const auto [stop, error] = std::from_chars(begin, end, code, base);
  const bool is_character = code < 0x110000 && (code < 0xD800 || code > 0xDFFF);
  if (error != std::errc{} || static_cast<std::size_t>(stop - begin) != digits || !is_character)
    return std::nullopt;
  return code;
}

/// Reads what follows a backslash at `at`, and moves behind it.
Result<void> read_escape(std::string_view source, std::size_t& at, std::string& text, int line) {
  constexpr std::string_view names = "\\'\"abfnrtv";
  constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
  const char c = source[at];
  if (const auto found = names.find(c); found != std::string_view::npos) {
    text += meanings[found];
    ++at;
    return {};
  }
  if (c == '\n') {
    ++at;
    return {};
  }
  std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  std::optional<char32_t> code;
  if (digits > 0) {
    code = read_code(source, at + 1, digits, 16);
    ++at;
  } else if (c >= '0' && c <= '7') {
    while (digits < 3 && at + digits < source.size() && source[at + digits] >= '0' && source[at + digits] <= '7')
      ++digits;
    code = read_code(source, at, digits, 8);
  } else if (c != 'N' && static_cast<unsigned char>(c) < 0x80) {
    text += '\\'; // as Python leaves it
    return {};
  }
  if (!code)
    return refuse(line, "a backslash in a text is followed by what makes no character");
  append_character(text, *code);
  at += digits;
  return {};
}

} // namespace

Result<NumberLiteral> read_number(std::string_view source, std::size_t at, int line) {
  // After a point, 1.5 is an index and another one.
  const bool follows_point = at > 0 && source[at - 1] == '.';
  if (const auto end = follows_point ? at : skip_fraction(source, at); end > at) {
    double number = 0;
    if (!parse(source.substr(at, end - at), number) || !std::isfinite(number))
      return refuse(line, fmt::format("{} is no number of 64 bits", source.substr(at, end - at)));
    return NumberLiteral{Value{number}, end - at};
  }
  const auto end = skip_digits(source, at);
  const auto behind = source.substr(at, 2);
  if (source[at] == '0' && (end - at > 1 || behind.find_first_of("bBoOxX") != std::string_view::npos))
    return refuse(line, "a number begins with 0");
  std::int64_t number = 0;
  if (!parse(source.substr(at, end - at), number))
    return refuse(line, fmt::format("{} is no whole number of 64 bits", source.substr(at, end - at)));
  return NumberLiteral{Value{number}, end - at};
}

Result<TextLiteral> read_text(std::string_view source, std::size_t begin, int line) {
  std::string text;
  for (auto at = begin + 1; at < source.size();) {
    const char c = source[at++];
    if (c == source[begin])
      return TextLiteral{std::move(text), at - begin};
    if (c != '\\' || at >= source.size())
      text += c;
    else
      GPUACTORS_TRY(read_escape(source, at, text, line));
  }
  return refuse(line, "a text does not end");
}

} // namespace llm::chat
