// Filters that make texts and numbers.
#include <apps/llm/chat/arithmetic.hpp>
#include <apps/llm/chat/filters.hpp>
#include <apps/llm/chat/text.hpp>
#include <apps/llm/chat/text_forms.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace llm::chat {

namespace {

template <auto Change>
Result<Value> change_text(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "a filter", {}));
  GPUACTORS_LET(text, to_text(budget, subject));
  GPUACTORS_TRY(budget.read(text->size()));
  return Change(budget, *text);
}

Result<Value> as_string(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "string", {}));
  GPUACTORS_LET(text, to_text(budget, subject));
  return Value{text};
}

Result<Value> trim(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "trim", {"chars"}));
  GPUACTORS_LET(text, to_text(budget, subject));
  GPUACTORS_TRY(budget.read(text->size()));
  std::optional<std::string_view> characters;
  if (given[0] && !given[0]->is<None>()) {
    if (!given[0]->is<Text>())
      return wrong(fmt::format("trims {}", kind_of(*given[0])));
    characters = *given[0]->text();
    GPUACTORS_TRY(take_strip(budget, *text, *characters));
  }
  return make_text(budget, std::string{strip_right(strip_left(*text, characters), characters)});
}

Result<Value> replace(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "replace", {"old", "new", "count"}, 2));
  GPUACTORS_LET(text, to_text(budget, subject));
  GPUACTORS_LET(old, to_text(budget, *given[0]));
  GPUACTORS_LET(with, to_text(budget, *given[1]));
  const bool has_count = given[2] && !given[2]->is<None>();
  const auto count = has_count ? whole_of(*given[2]) : std::optional<std::int64_t>{-1};
  if (!count)
    return wrong(fmt::format("replaces a text {} times", kind_of(*given[2])));
  return replace_parts(budget, *text, *old, *with, *count);
}

Result<Value> indent(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "indent", {"width", "first", "blank"}));
  const auto* text = subject.text();
  if (text == nullptr)
    return wrong(fmt::format("indents {}", kind_of(subject)));
  std::string blanks = "    ";
  if (given[0] && given[0]->is<Text>()) {
    blanks = *given[0]->text();
  } else if (given[0]) {
    const auto width = whole_of(*given[0]);
    if (!width)
      return wrong(fmt::format("indents by {}", kind_of(*given[0])));
    GPUACTORS_TRY(budget.take(static_cast<std::uint64_t>(std::max<std::int64_t>(*width, 0))));
    blanks = std::string(static_cast<std::size_t>(std::max<std::int64_t>(*width, 0)), ' ');
  }
  const auto all = *text + "\n";
  GPUACTORS_TRY(budget.take(all.size() * 8));
  const auto lines = split_lines(all);
  Writer writer{budget};
  for (const auto& line : lines) {
    const bool is_first = &line == &lines.front();
    if (!is_first)
      GPUACTORS_TRY(writer.add('\n'));
    if (is_first ? is_set(given[1]) : is_set(given[2]) || !line.empty())
      GPUACTORS_TRY(writer.add(blanks));
    GPUACTORS_TRY(writer.add(line));
  }
  return text_value(writer.release());
}

/// What int() and float() of Python take of a text: without blanks around it, and without _ between digits. Null if an
/// _ stands elsewhere.
std::optional<std::string> digits_of(std::string_view text) {
  const auto rest = strip_right(strip_left(text));
  std::string plain;
  const auto is_digit = [&](std::size_t i) { return i < rest.size() && rest[i] >= '0' && rest[i] <= '9'; };
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] != '_')
      plain += rest[i];
    else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1))
      return std::nullopt;
  }
  if (plain.starts_with("+") && plain.substr(1, 1) != "-")
    plain.erase(0, 1);
  return plain;
}

/// The number that a text is, null if it is none.
Result<std::optional<double>> read_double(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80)
      return unknown("makes a number of a text that is not ASCII");
  const auto plain = digits_of(text);
  if (!plain)
    return std::optional<double>{};
  if (plain->find_first_of("nNiI") != std::string::npos) // "nan" and "inf" are numbers to Python
    return plain->find_first_not_of("nNaAiIfFtTyY+-") == std::string::npos
               ? Result<std::optional<double>>{unknown("makes a number of a text that may be no finite one")}
               : Result<std::optional<double>>{std::optional<double>{}};
  double number = 0;
  const auto* end = plain->data() + plain->size();
  const auto [at, error] = std::from_chars(plain->data(), end, number);
  if (error == std::errc::result_out_of_range)
    return unknown("makes a number of more than 64 bits of a text");
  return error == std::errc{} && at == end ? std::optional{number} : std::nullopt;
}

Result<Value> as_float(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "float", {"default"}));
  if (const auto* undefined = subject.as<Undefined>())
    return wrong(*undefined->why);
  if (const auto* number = subject.as<double>())
    return Value{*number};
  if (const auto whole = whole_of(subject))
    return Value{static_cast<double>(*whole)};
  if (const auto* text = subject.text()) {
    GPUACTORS_TRY(budget.read(text->size()));
    GPUACTORS_LET(number, read_double(*text));
    if (number)
      return Value{*number};
  }
  return given[0].value_or(Value{0.0});
}

Result<Value> truncated(double number) {
  constexpr double most = 9.2e18;
  if (std::fabs(number) > most)
    return unknown("makes a whole number of more than 64 bits");
  return Value{static_cast<std::int64_t>(std::trunc(number))};
}

Result<Value> as_int(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "int", {"default", "base"}));
  if (given[1])
    return unknown("makes a number of another base than 10");
  if (const auto* undefined = subject.as<Undefined>())
    return wrong(*undefined->why);
  if (const auto whole = whole_of(subject))
    return Value{*whole};
  if (const auto* number = subject.as<double>())
    return truncated(*number);
  const auto* text = subject.text();
  if (text == nullptr)
    return given[0].value_or(Value{std::int64_t{0}});
  GPUACTORS_TRY(budget.read(text->size()));
  GPUACTORS_LET(number, read_double(*text));
  if (!number)
    return given[0].value_or(Value{std::int64_t{0}});
  // A whole number is read as one: a double has not all of them.
  const auto plain = *digits_of(*text);
  std::int64_t whole = 0;
  const auto* end = plain.data() + plain.size();
  const auto [at, error] = std::from_chars(plain.data(), end, whole);
  if (at == end && error == std::errc::result_out_of_range)
    return unknown("makes a whole number of more than 64 bits");
  return at == end && error == std::errc{} ? Result<Value>{Value{whole}} : truncated(*number);
}

Result<Value> as_absolute(Budget&, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "abs", {}));
  if (!is_number(subject))
    return wrong(fmt::format("asks for abs of {}", kind_of(subject)));
  GPUACTORS_LET(positive, compute_sign(false, subject));
  const auto* number = positive.as<double>();
  const bool is_negative = number != nullptr ? std::signbit(*number) : *whole_of(positive) < 0;
  return is_negative ? compute_sign(true, positive) : Result<Value>{positive};
}

constexpr FilterRow text_rows[] = {
    {"trim", trim},
    {"upper", change_text<make_upper>},
    {"lower", change_text<make_lower>},
    {"capitalize", change_text<make_capitalized>},
    {"title", change_text<make_title_of_words>},
    {"string", as_string},
    {"replace", replace},
    {"indent", indent},
    {"int", as_int},
    {"float", as_float},
    {"abs", as_absolute},
    {"tojson", to_json},
    // Only where it is the last thing that is done before a text is written, which changes nothing (primaries.cpp).
    {"safe", as_string},
};

} // namespace

Filter find_text_filter(std::string_view name) {
  for (const auto& row : text_rows)
    if (row.name == name)
      return row.filter;
  return nullptr;
}

} // namespace llm::chat
