// Functions that templates call by their names.
#pragma once

#include <apps/llm/chat/filters.hpp>

#include <chrono>
#include <deque>
#include <optional>
#include <string_view>

namespace llm::chat {

/// What functions need of the rendering.
struct Surroundings {
  /// What namespace() has made.
  std::deque<Namespace> namespaces;
  /// Null where templates get no time.
  std::optional<std::chrono::local_seconds> now;
  /// Whether the text of an error is that of raise_exception.
  bool was_raised = false;
};

/// Null if there is none with this name.
[[nodiscard]] std::optional<Function> find_function(std::string_view name);

Result<Value> call_function(Budget& budget, Surroundings& surroundings, Function function, const Arguments& arguments);

/// A time by a format of strftime, in English.
/// @returns an error for a directive that it does not know.
Result<std::string> print_time(std::chrono::local_seconds time, std::string_view format);

/// Whether loop has it.
[[nodiscard]] bool is_loop_attribute(std::string_view name);

} // namespace llm::chat
