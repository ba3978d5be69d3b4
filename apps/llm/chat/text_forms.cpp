// Letters, replacing, dividing and joining.
#include <apps/llm/chat/methods.hpp>
#include <apps/llm/chat/text.hpp>
#include <apps/llm/chat/text_forms.hpp>

#include <algorithm>

namespace llm::chat {

namespace {

Result<Value> or_unknown(Budget& budget, std::optional<std::string> text) {
  if (!text)
    return unknown("changes the case of letters that this program has no table of");
  return make_text(budget, std::move(*text));
}

/// The first character large and the others small.
std::optional<std::string> capitalize(std::string_view text) {
  const auto first = text.substr(0, offset_of(text, 1));
  auto result = to_upper(first);
  const auto rest = to_lower(text.substr(first.size()));
  if (!result || !rest)
    return std::nullopt;
  return *result + *rest;
}

bool is_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Text between blanks; the rest after `most` divisions is one.
std::vector<std::string_view> split_at_blanks(std::string_view text, std::size_t most, bool is_from_end) {
  std::vector<std::string_view> parts;
  auto rest = is_from_end ? strip_right(text) : strip_left(text);
  while (!rest.empty() && parts.size() < most) {
    if (is_from_end) {
      auto begin = rest.size();
      for (auto at = begin; at > 0 && !is_blank(previous_character(rest, at));)
        begin = at;
      parts.push_back(rest.substr(begin));
      rest = strip_right(rest.substr(0, begin));
    } else {
      std::size_t end = 0;
      for (std::size_t at = 0; at < rest.size() && !is_blank(next_character(rest, at));)
        end = at;
      parts.push_back(rest.substr(0, end));
      rest = strip_left(rest.substr(end));
    }
  }
  if (!rest.empty())
    parts.push_back(is_from_end ? strip_right(rest) : rest);
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::size_t most,
                                       bool is_from_end) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  if (!is_from_end) {
    for (auto found = find_part(text, separator); found != std::string_view::npos && parts.size() < most;
         found = find_part(text, separator, begin)) {
      parts.push_back(text.substr(begin, found - begin));
      begin = found + separator.size();
    }
    parts.push_back(text.substr(begin));
    return parts;
  }
  auto end = text.size();
  for (auto at = end; at >= separator.size() && at <= end && parts.size() < most;) {
    const auto start = at - separator.size();
    if (text.substr(start, separator.size()) != separator) {
      --at;
      continue;
    }
    parts.push_back(text.substr(at, end - at));
    end = at = start;
  }
  parts.push_back(text.substr(0, end));
  return parts;
}

} // namespace

Result<Value> make_upper(Budget& budget, const std::string& text) {
  return or_unknown(budget, to_upper(text));
}

Result<Value> make_lower(Budget& budget, const std::string& text) {
  return or_unknown(budget, to_lower(text));
}

Result<Value> make_capitalized(Budget& budget, const std::string& text) {
  return or_unknown(budget, capitalize(text));
}

Result<Value> make_title(Budget& budget, const std::string& text) {
  if (!is_ascii(text))
    return unknown("calls title() of a text that is not ASCII");
  std::string result = text;
  bool is_first = true;
  for (auto& c : result) {
    c = is_first ? to_upper({&c, 1})->front() : to_lower({&c, 1})->front();
    is_first = !is_letter(static_cast<unsigned char>(c));
  }
  return make_text(budget, std::move(result));
}

Result<Value> make_title_of_words(Budget& budget, const std::string& text) {
  constexpr std::string_view begins_word = "-({[<";
  std::string result;
  std::size_t begin = 0;
  std::size_t at = 0;
  while (begin < text.size()) {
    const auto last = at;
    const bool is_end = at >= text.size();
    const auto c = is_end ? U' ' : next_character(text, at);
    const bool is_between =
        is_blank(c) || (c < 0x80 && begins_word.find(static_cast<char>(c)) != std::string_view::npos);
    if (!is_between)
      continue;
    const auto word = capitalize(std::string_view{text}.substr(begin, last - begin));
    if (!word)
      return or_unknown(budget, std::nullopt);
    result += *word;
    result.append(text, last, at - last);
    begin = at;
    if (is_end)
      break;
  }
  return make_text(budget, std::move(result));
}

Result<void> take_strip(Budget& budget, std::string_view text, std::string_view characters) {
  // They are decoded for each end.
  GPUACTORS_TRY(budget.take(characters.size() * sizeof(char32_t)));
  GPUACTORS_TRY(budget.read(2 * characters.size()));
  return budget.step(text.size() * characters.size() / 64);
}

Result<Value> replace_parts(Budget& budget, const std::string& text, const std::string& old, const std::string& with,
                            std::int64_t count) {
  Writer writer{budget};
  std::size_t at = 0;
  for (std::int64_t done = 0; count < 0 || done < count; ++done) {
    GPUACTORS_TRY(budget.step(1 + old.size() / 64));
    if (old.empty()) { // it stands before each character, and at the end
      GPUACTORS_TRY(writer.add(with));
      if (at >= text.size())
        return text_value(writer.release());
      const auto begin = at;
      next_character(text, at);
      GPUACTORS_TRY(writer.add(std::string_view{text}.substr(begin, at - begin)));
      continue;
    }
    const auto found = find_part(text, old, at);
    if (found == std::string_view::npos)
      break;
    GPUACTORS_TRY(writer.add(std::string_view{text}.substr(at, found - at)));
    GPUACTORS_TRY(writer.add(with));
    at = found + old.size();
  }
  GPUACTORS_TRY(writer.add(std::string_view{text}.substr(at)));
  return text_value(writer.release());
}

Result<Value> join(Budget& budget, const std::vector<Value>& values, std::string_view separator) {
  Writer writer{budget};
  for (const auto& value : values) {
    if (&value != &values.front())
      GPUACTORS_TRY(writer.add(separator));
    GPUACTORS_TRY(budget.step());
    GPUACTORS_TRY(write(writer, value));
  }
  return text_value(writer.release());
}

Result<Value> split(Budget& budget, std::string_view text, const std::optional<std::string_view>& separator,
                    std::int64_t most, bool is_from_end) {
  if (separator && separator->empty())
    return wrong("divides a text at an empty one");
  GPUACTORS_TRY(budget.take(text.size() * sizeof(std::string_view) / 2));
  const auto times = most < 0 ? ~std::size_t{0} : static_cast<std::size_t>(most);
  if (separator && is_from_end)
    GPUACTORS_TRY(budget.step(text.size() * separator->size() / 64));
  auto parts = separator ? split_at(text, *separator, times, is_from_end) : split_at_blanks(text, times, is_from_end);
  if (is_from_end)
    std::reverse(parts.begin(), parts.end());
  std::vector<Value> values;
  for (const auto part : parts) {
    GPUACTORS_LET(value, make_text(budget, std::string{part}));
    values.push_back(value);
  }
  return make_list(budget, std::move(values));
}

} // namespace llm::chat
