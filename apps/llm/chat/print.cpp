// Values as Python writes them: str() and repr().
#include <apps/llm/chat/text.hpp>
#include <apps/llm/chat/value.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace llm::chat {

namespace {

Result<void> represent(Writer& writer, const Value& value);

Result<void> represent_text(Writer& writer, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  GPUACTORS_TRY(writer.add(quote));
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    const auto character = next_character(text, at);
    const auto is_shown = is_printable(character);
    if (!is_shown)
      return unknown(fmt::format("writes a list or dict that holds the character U+{:04X}, which versions of Python "
                                 "show in different ways",
                                 static_cast<std::uint32_t>(character)));
    if (character == static_cast<unsigned char>(quote) || character == '\\')
      GPUACTORS_TRY(writer.add('\\'));
    if (*is_shown)
      GPUACTORS_TRY(writer.add(text.substr(begin, at - begin)));
    else if (character == '\n' || character == '\r' || character == '\t')
      GPUACTORS_TRY(writer.add(character == '\n' ? "\\n" : character == '\r' ? "\\r" : "\\t"));
    else
      GPUACTORS_TRY(writer.add(fmt::format(fmt::runtime(character < 0x100 ? "\\x{:02x}" : "\\u{:04x}"),
                                           static_cast<std::uint32_t>(character))));
  }
  return writer.add(quote);
}

Result<void> represent_items(Writer& writer, const std::vector<Value>& values) {
  bool is_first = true;
  for (const auto& value : values) {
    if (!std::exchange(is_first, false))
      GPUACTORS_TRY(writer.add(", "));
    GPUACTORS_TRY(represent(writer, value));
  }
  return {};
}

Result<void> represent_entries(Writer& writer, const Entries& entries) {
  GPUACTORS_TRY(writer.add('{'));
  bool is_first = true;
  for (const auto& [key, value] : entries.pairs) {
    if (!std::exchange(is_first, false))
      GPUACTORS_TRY(writer.add(", "));
    GPUACTORS_TRY(represent(writer, key));
    GPUACTORS_TRY(writer.add(": "));
    GPUACTORS_TRY(represent(writer, value));
  }
  return writer.add('}');
}

Result<void> represent_view(Writer& writer, const View& view) {
  constexpr std::string_view names[] = {"dict_items([", "dict_keys([", "dict_values(["};
  GPUACTORS_TRY(writer.add(names[static_cast<int>(view.kind)]));
  GPUACTORS_LET(values, all_of(writer.budget(), Value{view}));
  GPUACTORS_TRY(represent_items(writer, values));
  return writer.add("])");
}

Result<void> represent(Writer& writer, const Value& value) {
  GPUACTORS_TRY(writer.budget().step());
  if (const auto* text = value.text())
    return represent_text(writer, *text);
  if (const auto* list = value.as<List>()) {
    GPUACTORS_TRY(writer.add('['));
    GPUACTORS_TRY(represent_items(writer, list->items->values));
    return writer.add(']');
  }
  if (const auto* tuple = value.as<Tuple>()) {
    GPUACTORS_TRY(writer.add('('));
    GPUACTORS_TRY(represent_items(writer, tuple->items->values));
    return writer.add(tuple->items->values.size() == 1 ? ",)" : ")");
  }
  if (const auto* entries = value.entries())
    return represent_entries(writer, *entries);
  if (const auto* view = value.as<View>())
    return represent_view(writer, *view);
  if (const auto* range = value.as<Range>())
    return writer.add(range->step == 1 ? fmt::format("range({}, {})", range->start, range->stop)
                                       : fmt::format("range({}, {}, {})", range->start, range->stop, range->step));
  if (value.is<Undefined>())
    return writer.add("Undefined");
  if (value.is<None>())
    return writer.add("None");
  if (const auto* flag = value.as<bool>())
    return writer.add(*flag ? "True" : "False");
  if (const auto* whole = value.as<std::int64_t>())
    return writer.add(fmt::format("{}", *whole));
  if (const auto* number = value.as<double>())
    return writer.add(print_number(*number));
  return unknown(fmt::format("writes {}", kind_of(value)));
}

} // namespace

std::string print_number(double number) {
  if (std::isnan(number))
    return "nan";
  if (std::isinf(number))
    return number < 0 ? "-inf" : "inf";
  char text[32];
  const auto* end = std::to_chars(text, text + sizeof text, std::fabs(number), std::chars_format::scientific).ptr;
  const std::string_view all{text, static_cast<std::size_t>(end - text)};
  const auto e = all.find('e');
  int exponent = 0;
  const auto* digits_of_exponent = text + e + 1 + (all[e + 1] == '+' ? 1 : 0);
  std::from_chars(digits_of_exponent, end, exponent);
  std::string digits{all[0]};
  if (e > 2)
    digits += all.substr(2, e - 2);
  const auto count = static_cast<int>(digits.size());
  std::string result = std::signbit(number) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    result += digits[0];
    if (count > 1)
      result += "." + digits.substr(1);
    return result + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return result + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return result + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  const auto point = static_cast<std::size_t>(exponent) + 1;
  return result + digits.substr(0, point) + "." + digits.substr(point);
}

Result<void> write(Writer& writer, const Value& value) {
  if (const auto* text = value.text())
    return writer.add(*text);
  if (value.is<Undefined>())
    return {};
  return represent(writer, value);
}

Result<Text> to_text(Budget& budget, const Value& value) {
  if (const auto* text = value.as<Text>())
    return *text;
  Writer writer{budget};
  GPUACTORS_TRY(write(writer, value));
  return std::make_shared<const std::string>(writer.release());
}

} // namespace llm::chat
