// What methods and filters make of texts, within a budget.
#pragma once

#include <apps/llm/chat/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llm::chat {

/// In other letters. @returns an error for letters that this library has no table of.
Result<Value> make_upper(Budget& budget, const std::string& text);
Result<Value> make_lower(Budget& budget, const std::string& text);
/// The first letter large, all others small.
Result<Value> make_capitalized(Budget& budget, const std::string& text);
/// The first letter of each word large, where words are what str.title takes for words.
Result<Value> make_title(Budget& budget, const std::string& text);
/// The same, where words are what Jinja's filter takes for words.
Result<Value> make_title_of_words(Budget& budget, const std::string& text);

/// Takes what stripping a text of these characters costs.
Result<void> take_strip(Budget& budget, std::string_view text, std::string_view characters);

/// @param count of replacements at most, if it is not negative.
Result<Value> replace_parts(Budget& budget, const std::string& text, const std::string& old, const std::string& with,
                            std::int64_t count);

/// The values as texts, with a separator between them.
Result<Value> join(Budget& budget, const std::vector<Value>& values, std::string_view separator);

} // namespace llm::chat
