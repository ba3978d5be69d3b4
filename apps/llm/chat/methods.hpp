// Attributes and items of values, and their methods.
#pragma once

#include <apps/llm/chat/filters.hpp>

#include <string_view>

namespace llm::chat {

/// Whether there is a method with this name, of some kind of values.
[[nodiscard]] bool is_method(std::string_view name);

/// value.name: a method, or an item with this name.
Result<Value> attribute_of(Budget& budget, const Value& value, std::string_view name);

/// value[key]: an item, or a method with this name.
Result<Value> item_of(Budget& budget, const Value& value, const Value& key);

/// value[start:stop:step], each of which may be null.
Result<Value> slice_of(Budget& budget, const Value& value, const std::optional<Value>& start,
                       const std::optional<Value>& stop, const std::optional<Value>& step);

Result<Value> call_method(Budget& budget, const Method& method, const Arguments& arguments);

/// The methods of texts (text_methods.cpp).
Result<Value> call_text_method(Budget& budget, const Method& method, const Arguments& arguments);
[[nodiscard]] bool is_text_method(std::string_view name);

/// Text divided at a separator, or at blanks if there is none; at most so often if that is not negative.
Result<Value> split(Budget& budget, std::string_view text, const std::optional<std::string_view>& separator,
                    std::int64_t most, bool is_from_end);

} // namespace llm::chat
