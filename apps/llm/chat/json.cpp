// Values from JSON, and as Python's json.dumps writes them.
#include <apps/llm/chat/filters.hpp>
#include <apps/llm/chat/json.hpp>
#include <apps/llm/chat/text.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace llm::chat {

namespace {

Result<Value> json_text(Budget& budget, const std::string& text) {
  if (!is_text(text))
    return wrong("gets a text that is not UTF-8");
  return make_text(budget, text);
}

template <class Json>
Result<Value> read(Budget& budget, const Json& json, int depth) {
  GPUACTORS_TRY(budget.step());
  if (depth > most_values_in_each_other)
    return wrong(fmt::format("gets more than {} lists and objects in each other", most_values_in_each_other));
  if (json.is_null())
    return Value{None{}};
  if (json.is_boolean())
    return Value{json.template get<bool>()};
  if (json.is_string())
    return json_text(budget, json.template get_ref<const std::string&>());
  if (json.is_number_unsigned() && json.template get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
    return unknown(fmt::format("gets the number {}, which has more than 64 bits", json.template get<std::uint64_t>()));
  if (json.is_number_integer())
    return Value{json.template get<std::int64_t>()};
  if (json.is_number_float()) {
    const auto number = json.template get<double>();
    return std::isfinite(number) ? Result<Value>{Value{number}} : unknown("gets a number that is not finite");
  }
  if (json.is_array()) {
    std::vector<Value> values;
    for (const auto& one : json) {
      GPUACTORS_LET(value, read(budget, one, depth + 1));
      values.push_back(std::move(value));
    }
    return make_list(budget, std::move(values));
  }
  if (!json.is_object())
    return unknown("gets JSON that is binary");
  std::vector<std::pair<Value, Value>> pairs;
  for (const auto& [name, one] : json.items()) {
    GPUACTORS_LET(key, json_text(budget, name));
    GPUACTORS_LET(value, read(budget, one, depth + 1));
    pairs.emplace_back(std::move(key), std::move(value));
  }
  return make_dict(budget, std::move(pairs));
}

// -- writing ----------------------------------------------------------------------------------

/// How JSON is written.
struct Style {
  bool is_ascii = false;
  /// What stands before a value, once for each list around it; null for all in one line.
  std::optional<std::string> indent;
  std::string comma = ", ";
  std::string colon = ": ";
  bool is_sorted = false;
};

class JsonWriter {
public:
  JsonWriter(Budget& budget, const Style& style) : writer_(budget), style_(&style) {
    // nop
  }

  Result<void> write(const Value& value) {
    GPUACTORS_TRY(writer_.budget().step());
    if (const auto* text = value.text())
      return write_text(*text);
    if (value.is<None>())
      return writer_.add("null");
    if (const auto* flag = value.as<bool>())
      return writer_.add(*flag ? "true" : "false");
    if (is_number(value))
      return chat::write(writer_, value);
    if (const auto* items = value.items())
      return write_list(items->values);
    if (const auto* entries = value.entries())
      return write_dict(*entries);
    return wrong(fmt::format("writes {} as JSON", kind_of(value)));
  }

  [[nodiscard]] std::string release() {
    return writer_.release();
  }

private:
  Result<void> write_text(std::string_view text) {
    GPUACTORS_TRY(writer_.add('"'));
    for (std::size_t at = 0; at < text.size();) {
      const auto begin = at;
      const auto c = next_character(text, at);
      constexpr std::string_view escaped = "\"\\\n\r\t\f\b";
      constexpr std::string_view letters = "\"\\nrtfb";
      const auto found = c < 0x80 ? escaped.find(static_cast<char>(c)) : std::string_view::npos;
      if (found != std::string_view::npos) {
        GPUACTORS_TRY(writer_.add('\\'));
        GPUACTORS_TRY(writer_.add(letters[found]));
      } else if (c < 0x20 || (style_->is_ascii && c > 0x7E && c < 0x10000)) {
        GPUACTORS_TRY(writer_.add(fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c))));
      } else if (style_->is_ascii && c >= 0x10000) {
        const auto rest = static_cast<std::uint32_t>(c) - 0x10000U;
        GPUACTORS_TRY(
            writer_.add(fmt::format("\\u{:04x}\\u{:04x}", 0xD800U + (rest >> 10U), 0xDC00U + (rest & 0x3FFU))));
      } else {
        GPUACTORS_TRY(writer_.add(text.substr(begin, at - begin)));
      }
    }
    return writer_.add('"');
  }

  /// Before a value in a list, or before the end of it.
  Result<void> begin_line(bool is_first, bool is_end) {
    if (!is_first && !is_end)
      GPUACTORS_TRY(writer_.add(style_->comma));
    if (!style_->indent)
      return {};
    GPUACTORS_TRY(writer_.add('\n'));
    for (int i = 0; i < depth_; ++i)
      GPUACTORS_TRY(writer_.add(*style_->indent));
    return {};
  }

  Result<void> write_list(const std::vector<Value>& values) {
    if (values.empty())
      return writer_.add("[]");
    GPUACTORS_TRY(writer_.add('['));
    ++depth_;
    for (const auto& value : values) {
      GPUACTORS_TRY(begin_line(&value == &values.front(), false));
      GPUACTORS_TRY(write(value));
    }
    --depth_;
    GPUACTORS_TRY(begin_line(false, true));
    return writer_.add(']');
  }

  Result<void> write_key(const Value& key) {
    if (const auto* text = key.text())
      return write_text(*text);
    if (!key.is<None>() && !is_number(key))
      return wrong(fmt::format("writes {} as a key of JSON", kind_of(key)));
    GPUACTORS_TRY(writer_.add('"'));
    GPUACTORS_TRY(write(key));
    return writer_.add('"');
  }

  Result<void> write_dict(const Entries& entries) {
    if (entries.pairs.empty())
      return writer_.add("{}");
    auto pairs = entries.pairs;
    if (style_->is_sorted)
      GPUACTORS_TRY(sort(pairs));
    GPUACTORS_TRY(writer_.add('{'));
    ++depth_;
    for (const auto& [key, value] : pairs) {
      GPUACTORS_TRY(begin_line(&key == &pairs.front().first, false));
      GPUACTORS_TRY(write_key(key));
      GPUACTORS_TRY(writer_.add(style_->colon));
      GPUACTORS_TRY(write(value));
    }
    --depth_;
    GPUACTORS_TRY(begin_line(false, true));
    return writer_.add('}');
  }

  Result<void> sort(std::vector<std::pair<Value, Value>>& pairs) {
    for (const auto& [key, value] : pairs)
      if (!key.is<Text>())
        return unknown("writes JSON sorted by keys that are no texts");
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const auto& a, const auto& b) { return *a.first.text() < *b.first.text(); });
    return writer_.budget().step(pairs.size());
  }

  Writer writer_;
  const Style* style_;
  int depth_ = 0;
};

Result<std::optional<std::string>> read_indent(Budget& budget, const std::optional<Value>& value) {
  if (!value || value->is<None>())
    return std::optional<std::string>{};
  if (const auto* text = value->text())
    return std::optional{*text};
  const auto width = whole_of(*value);
  if (!width)
    return wrong(fmt::format("indents JSON by {}", kind_of(*value)));
  const auto blanks = static_cast<std::uint64_t>(std::max<std::int64_t>(*width, 0));
  GPUACTORS_TRY(budget.take(blanks));
  return std::optional{std::string(static_cast<std::size_t>(blanks), ' ')};
}

} // namespace

Result<Value> from_json(Budget& budget, const nlohmann::json& json) {
  return read(budget, json, 0);
}

Result<Value> from_json(Budget& budget, const nlohmann::ordered_json& json) {
  return read(budget, json, 0);
}

Result<Value> to_json(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}));
  Style style;
  style.is_ascii = is_set(given[0]);
  style.is_sorted = is_set(given[3]);
  GPUACTORS_LET(indent, read_indent(budget, given[1]));
  style.indent = indent;
  if (indent)
    style.comma.pop_back(); // no blank before the end of a line
  if (given[2] && !given[2]->is<None>()) {
    const auto* separators = given[2]->items();
    if (separators == nullptr || separators->values.size() != 2 || !separators->values[0].is<Text>()
        || !separators->values[1].is<Text>())
      return wrong("writes JSON with separators that are not two texts");
    style.comma = *separators->values[0].text();
    style.colon = *separators->values[1].text();
  }
  JsonWriter writer{budget, style};
  GPUACTORS_TRY(writer.write(subject));
  return text_value(writer.release());
}

} // namespace llm::chat
