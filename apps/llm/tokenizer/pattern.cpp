// Searching with ICU, which counts in UTF-16, and splitting.
#include <apps/llm/tokenizer/pattern.hpp>
#include <apps/llm/tokenizer/regex_syntax.hpp>
#include <apps/llm/tokenizer/utf8.hpp>

#include <fmt/format.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <utility>

namespace llm::tokenizer {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Failure;
using gpuactors::Result;

namespace {

/// Steps between calls of count_steps, as ICU has it.
constexpr std::int64_t counted_steps = 10'000;

UBool U_CALLCONV count_steps(const void* context, std::int32_t) {
  // ICU hands on what it was given, which is no constant.
  auto& budget = *static_cast<Budget*>(const_cast<void*>(context)); // NOLINT(*-const-cast)
  budget.steps -= counted_steps;
  return static_cast<UBool>(budget.steps > 0);
}

/// Goes over a text in UTF-8 and knows where the same text in UTF-16 is.
struct Walk {
  std::string_view text;
  std::size_t byte = 0;
  std::int32_t unit = 0;

  std::size_t to(std::int32_t target) {
    while (unit < target) {
      const auto bytes = character_at(text, byte).bytes;
      unit += bytes == 4 ? 2 : 1;
      byte += bytes;
    }
    return byte;
  }
};

} // namespace

Result<Pattern> Pattern::text(std::string text) {
  constexpr std::size_t most_bytes = 256;
  if (text.empty() || text.size() > most_bytes)
    return fail(Errc::invalid_argument, fmt::format("a pattern in tokenizer.json is a text of {} bytes; it has 1 to {}",
                                                    text.size(), most_bytes));
  Pattern pattern;
  pattern.text_ = std::move(text);
  return pattern;
}

Result<Pattern> Pattern::regex(std::string_view expression) {
  GPUACTORS_LET(translated, to_icu(expression));
  auto status = U_ZERO_ERROR;
  // In Ruby's syntax only \n ends a line, which `.` does not match.
  std::shared_ptr<const icu::RegexPattern> regex{
      icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(translated), UREGEX_UNIX_LINES, status)};
  if (U_FAILURE(status) || !regex)
    return fail(Errc::unsupported, fmt::format("the regular expression {} in tokenizer.json is none to ICU: {}",
                                               quote(expression), u_errorName(status)));
  Pattern pattern;
  pattern.expression_ = expression;
  pattern.regex_ = std::move(regex);
  return pattern;
}

Result<Pattern> Pattern::read(const Part& part) {
  const auto found = part.json->find("pattern");
  if (found != part.json->end() && found->is_object() && found->size() == 1 && found->begin()->is_string()) {
    if (found->begin().key() == "String")
      return text(found->begin()->get<std::string>());
    if (found->begin().key() == "Regex")
      return regex(found->begin()->get_ref<const std::string&>());
  }
  return fail(Errc::invalid_argument,
              fmt::format("the {} in tokenizer.json has no pattern that is a String or a Regex", part.name));
}

bool Pattern::is_character() const {
  return !regex_ && character_at(text_, 0).bytes == text_.size();
}

Search::Search(const Pattern& pattern, Budget& budget) : pattern_(&pattern), budget_(&budget) {
  if (!pattern.regex_)
    return;
  matcher_.reset(pattern.regex_->matcher(status_));
  if (U_FAILURE(status_))
    return;
  // What it remembers to go back to.
  constexpr std::int32_t most_bytes = 64 << 20;
  matcher_->setStackLimit(most_bytes, status_);
  matcher_->setMatchCallback(count_steps, budget_, status_);
}

Failure Search::stopped(UErrorCode status) const {
  return fail(status == U_REGEX_STOPPED_BY_CALLER || status == U_REGEX_STACK_OVERFLOW ? Errc::invalid_argument
                                                                                      : Errc::internal,
              fmt::format("the regular expression {} in tokenizer.json goes back too often in this text ({})",
                          quote(pattern_->expression_), u_errorName(status)));
}

Result<void> Search::cover(std::string_view text, std::vector<Span>& spans) {
  if (!pattern_->regex_) {
    cover_text(text, spans);
    return {};
  }
  if (U_FAILURE(status_))
    return stopped(status_);
  units_.resize(std::max(units_.size(), text.size()));
  std::int32_t length = 0;
  u_strFromUTF8(units_.data(), static_cast<std::int32_t>(units_.size()), &length, text.data(),
                static_cast<std::int32_t>(text.size()), &status_);
  if (status_ == U_STRING_NOT_TERMINATED_WARNING)
    status_ = U_ZERO_ERROR;
  if (U_FAILURE(status_))
    return stopped(status_);
  input_.setTo(false, units_.data(), length);
  matcher_->reset(input_);
  Walk walk{text};
  std::size_t last = 0;
  bool has_matched = false;
  while (matcher_->find(status_)) {
    const auto begin = walk.to(matcher_->start(status_));
    const auto end = walk.to(matcher_->end(status_));
    if (begin == end && has_matched && begin == last)
      continue;
    if (last != begin)
      spans.push_back({last, begin, false});
    spans.push_back({begin, end, true});
    last = end;
    has_matched = true;
  }
  if (U_FAILURE(status_))
    return stopped(status_);
  if (last != text.size())
    spans.push_back({last, text.size(), false});
  return {};
}

void Search::cover_text(std::string_view text, std::vector<Span>& spans) const {
  const std::string_view wanted = pattern_->text_;
  std::size_t last = 0;
  for (auto at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, last)) {
    if (last != at)
      spans.push_back({last, at, false});
    last = at + wanted.size();
    spans.push_back({at, last, true});
  }
  if (last != text.size())
    spans.push_back({last, text.size(), false});
}

Result<Behavior> read_behavior(const Part& part) {
  GPUACTORS_LET(name, read_text(part, "behavior"));
  constexpr std::pair<std::string_view, Behavior> behaviors[]{{"Removed", Behavior::removed},
                                                              {"Isolated", Behavior::isolated},
                                                              {"MergedWithPrevious", Behavior::merged_with_previous},
                                                              {"MergedWithNext", Behavior::merged_with_next},
                                                              {"Contiguous", Behavior::contiguous}};
  for (const auto& [known, behavior] : behaviors)
    if (name == known)
      return behavior;
  return fail(Errc::unsupported, fmt::format("behavior of the {} in tokenizer.json is {}; it is Removed, Isolated, "
                                             "MergedWithPrevious, MergedWithNext or Contiguous",
                                             part.name, quote(name)));
}

void behave(std::vector<Span>& spans, Behavior behavior) {
  if (behavior == Behavior::isolated)
    return;
  if (behavior == Behavior::removed) {
    std::erase_if(spans, [](const Span& span) { return span.is_match; });
    return;
  }
  const bool is_backward = behavior == Behavior::merged_with_next;
  if (is_backward)
    std::reverse(spans.begin(), spans.end());
  std::vector<Span> joined;
  bool was_match = false;
  for (const auto& span : spans) {
    const bool joins = behavior == Behavior::contiguous ? span.is_match == was_match : span.is_match && !was_match;
    was_match = span.is_match;
    if (!joins || joined.empty())
      joined.push_back(span);
    else if (is_backward)
      joined.back().begin = span.begin;
    else
      joined.back().end = span.end;
  }
  if (is_backward)
    std::reverse(joined.begin(), joined.end());
  spans = std::move(joined);
}

} // namespace llm::tokenizer
