// What templates apply to values: filters after |, and tests after `is`.
#pragma once

#include <apps/llm/chat/value.hpp>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llm::chat {

/// What something is called with.
struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;
};

/// The arguments of a function with these parameters, by position; null for those that are not given. An error for
/// those that it does not have, and for missing ones among the first `needed`.
Result<std::vector<std::optional<Value>>> bind(const Arguments& arguments, std::string_view function,
                                               std::initializer_list<std::string_view> parameters,
                                               std::size_t needed = 0);

using Filter = Result<Value> (*)(Budget& budget, const Value& subject, const Arguments& arguments);
using Test = Result<bool> (*)(Budget& budget, const Value& subject, const Arguments& arguments);

/// Null if there is none with this name.
[[nodiscard]] Filter find_filter(std::string_view name);
[[nodiscard]] Test find_test(std::string_view name);

/// A row of a table of filters.
struct FilterRow {
  std::string_view name;
  Filter filter;
};

/// The rows of text_filters.cpp, list_filters.cpp and lazy_filters.cpp.
[[nodiscard]] Filter find_text_filter(std::string_view name);
[[nodiscard]] Filter find_list_filter(std::string_view name);
[[nodiscard]] Filter find_lazy_filter(std::string_view name);

/// Writes JSON as Python's json.dumps does: the filter tojson.
Result<Value> to_json(Budget& budget, const Value& subject, const Arguments& arguments);

/// Looks an attribute of an item up, as map(attribute=...) and others do: names and numbers with points between them.
Result<Value> look_up(Budget& budget, const Value& item, const Value& attribute,
                      const std::optional<Value>& otherwise = {});

/// Text in small letters, for what does not care for them; other values as they are.
Result<Value> without_case(Budget& budget, const Value& value);

/// Whether an argument is given and true.
[[nodiscard]] bool is_set(const std::optional<Value>& argument);

} // namespace llm::chat
