// Texts that end an answer, found although they come in pieces. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// Passes a text on, up to the first of the texts that end it, which is not passed on. What may be the beginning of one
/// is held back until it is known.
class StopTexts {
public:
  /// @param stops  none of them empty; without any, nothing is held back.
  explicit StopTexts(std::vector<std::string> stops);

  struct Passed {
    std::string text;
    /// Whether an end was found: there is no more.
    bool ended = false;
  };

  /// Adds a piece. @returns what is certain by now.
  Passed take(std::string_view piece);

  /// Returns what was held back, when no more comes.
  [[nodiscard]] std::string rest() &&;

private:
  std::vector<std::string> stops_;
  std::string held_;
};

} // namespace llm
