// What a tokenizer looks for in texts: a text, or a regular expression. Pure.
#pragma once

#include <apps/llm/tokenizer/fields.hpp>

#include <unicode/regex.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace llm::tokenizer {

/// Bytes of a text: no context of a model holds the tokens of more.
inline constexpr std::size_t most_text = std::size_t{4} << 20;

/// Bytes of what normalizers and the like make of a text.
inline constexpr std::size_t most_changed = std::size_t{64} << 20;

/// A part of a text, in bytes.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;
};

/// The steps that regular expressions and the like may take for one text, about 10 ns each: some go back so often that
/// they would take hours.
struct Budget {
  std::int64_t steps = 0;

  /// Of a text: far more than an expression takes that goes over it a few times.
  static Budget for_text(std::size_t bytes) {
    return {20'000'000 + 64 * static_cast<std::int64_t>(bytes)};
  }
};

/// Any thread may search with it at the same time as others, each with an own Search.
class Pattern {
public:
  /// @returns `invalid_argument` for one that is empty or of more than 256 bytes.
  static gpuactors::Result<Pattern> text(std::string text);

  /// @returns what to_icu() does, and `unsupported` for what ICU does not compile.
  static gpuactors::Result<Pattern> regex(std::string_view expression);

  /// What an entry `pattern` says: {"String": text} or {"Regex": expression}.
  static gpuactors::Result<Pattern> read(const Part& part);

  [[nodiscard]] bool is_regex() const {
    return regex_ != nullptr;
  }

  /// Whether it is one character.
  [[nodiscard]] bool is_character() const;

private:
  friend class Search;
  Pattern() = default;

  /// What is searched if there is no expression.
  std::string text_;
  std::string expression_;
  std::shared_ptr<const icu::RegexPattern> regex_;
};

/// Searches texts for a pattern. Of one thread; the pattern and the budget must live as long.
class Search {
public:
  Search(const Pattern& pattern, Budget& budget);
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  ~Search() = default;

  /// Adds spans that cover the text in its order: each match, and what lies between. A match can be empty, but for one
  /// where the last one ended.
  /// @returns `invalid_argument` if the expression takes more steps or memory than there may be.
  gpuactors::Result<void> cover(std::string_view text, std::vector<Span>& spans);

private:
  void cover_text(std::string_view text, std::vector<Span>& spans) const;
  [[nodiscard]] gpuactors::Failure stopped(UErrorCode status) const;

  const Pattern* pattern_;
  Budget* budget_;
  UErrorCode status_ = U_ZERO_ERROR;
  std::vector<char16_t> units_;
  icu::UnicodeString input_;
  std::unique_ptr<icu::RegexMatcher> matcher_;
};

/// What becomes of matches where a text is split.
enum class Behavior : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// An entry `behavior`.
gpuactors::Result<Behavior> read_behavior(const Part& part);

/// Makes spans that cover a text those that it is split into; `is_match` means nothing any more.
void behave(std::vector<Span>& spans, Behavior behavior);

} // namespace llm::tokenizer
