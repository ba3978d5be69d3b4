// Splitting, one pre-tokenizer after the other.
#include <apps/llm/tokenizer/byte_level.hpp>
#include <apps/llm/tokenizer/characters.hpp>
#include <apps/llm/tokenizer/splitter.hpp>
#include <apps/llm/tokenizer/utf8.hpp>

#include <fmt/format.h>

#include <utility>

namespace llm::tokenizer {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using Json = nlohmann::json;

namespace {

constexpr std::string_view splitter_types = "Split, ByteLevel, Metaspace, Digits, Whitespace, WhitespaceSplit and "
                                            "Sequence";

/// Replaces each word's text: `change` adds to the new text what it makes of a word.
template <class Change>
Result<void> rewrite(Words& words, Change change) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 4);
  std::size_t kept = 0;
  for (auto& word : words.list) {
    const auto begin = text.size();
    if (!word.token)
      change(std::string_view{words.text}.substr(word.begin, word.end - word.begin), word, text);
    if (text.size() > most_changed)
      return fail(Errc::invalid_argument, fmt::format("the pre_tokenizer of tokenizer.json makes more than {} bytes of "
                                                      "this text",
                                                      most_changed));
    if (word.token || text.size() > begin)
      words.list[kept++] = {begin, text.size(), word.token};
  }
  words.list.resize(kept);
  words.text = std::move(text);
  return {};
}

/// Replaces each word by parts of it: `find` adds spans that cover it.
template <class Find>
Result<void> divide(Words& words, Behavior behavior, Find find) {
  std::vector<Word> list;
  list.reserve(words.list.size());
  std::vector<Span> spans;
  for (const auto& word : words.list) {
    if (word.token) {
      list.push_back(word);
      continue;
    }
    spans.clear();
    GPUACTORS_TRY(find(std::string_view{words.text}.substr(word.begin, word.end - word.begin), spans));
    behave(spans, behavior);
    for (const auto& span : spans)
      if (span.begin != span.end)
        list.push_back({word.begin + span.begin, word.begin + span.end, {}});
  }
  words.list = std::move(list);
  return {};
}

/// Adds a span for each run of characters of the same kind. A match is a run whose kind `matches`, or each character of
/// it if they are `single`.
template <class Kind>
void cover_runs(std::string_view text, Kind kind_of, std::uint8_t matching, bool is_single, std::vector<Span>& spans) {
  std::optional<std::uint8_t> last;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    const std::uint8_t kind = kind_of(character.code);
    const bool is_match = kind == matching;
    if (last == kind && !(is_match && is_single))
      spans.back().end = at + character.bytes;
    else
      spans.push_back({at, at + character.bytes, is_match});
    last = kind;
    at += character.bytes;
  }
}

Result<void> divide_by(Words& words, const Pattern& pattern, Behavior behavior, bool is_inverted, Budget& budget) {
  Search search{pattern, budget};
  return divide(words, behavior, [&](std::string_view text, std::vector<Span>& spans) -> Result<void> {
    GPUACTORS_TRY(search.cover(text, spans));
    if (is_inverted)
      for (auto& span : spans)
        span.is_match = !span.is_match;
    return {};
  });
}

Result<void> apply(const Split& split, Words& words, Budget& budget) {
  return divide_by(words, split.pattern, split.behavior, split.is_inverted, budget);
}

Result<void> apply(const ByteLevel& level, Words& words, Budget& budget) {
  if (level.adds_space)
    GPUACTORS_TRY(rewrite(words, [](std::string_view old, const Word&, std::string& text) {
      if (!old.starts_with(' '))
        text += ' ';
      text += old;
    }));
  if (level.pattern)
    GPUACTORS_TRY(divide_by(words, *level.pattern, Behavior::isolated, false, budget));
  return rewrite(words, [](std::string_view old, const Word&, std::string& text) { append_byte_level(text, old); });
}

Result<void> apply(const Metaspace& meta, Words& words, Budget&) {
  std::string character;
  append(character, meta.character);
  GPUACTORS_TRY(rewrite(words, [&](std::string_view old, const Word& word, std::string& text) {
    const bool may_begin =
        meta.scheme == Metaspace::Scheme::always || (meta.scheme == Metaspace::Scheme::first && word.begin == 0);
    if (may_begin && !old.starts_with(' ') && !old.starts_with(character))
      text += character;
    for (const char one : old)
      one == ' ' ? text += character : text += one;
  }));
  if (!meta.splits)
    return {};
  return divide(words, Behavior::merged_with_next, [&](std::string_view text, std::vector<Span>& spans) {
    cover_runs(
        text, [&](char32_t code) { return static_cast<std::uint8_t>(code == meta.character); }, 1, true, spans);
    return Result<void>{};
  });
}

Result<void> apply(const Digits& digits, Words& words, Budget&) {
  return divide(words, digits.is_each ? Behavior::isolated : Behavior::contiguous,
                [](std::string_view text, std::vector<Span>& spans) {
                  cover_runs(
                      text, [](char32_t code) { return static_cast<std::uint8_t>(is_number(code)); }, 1, true, spans);
                  return Result<void>{};
                });
}

/// 0 for what is blank, 1 for letters, marks, digits and the like, 2 for the rest.
std::uint8_t kind_of_character(char32_t code) {
  return is_blank(code) ? 0 : is_word_character(code) ? 1 : 2;
}

Result<void> apply(const Whitespace&, Words& words, Budget&) {
  return divide(words, Behavior::removed, [](std::string_view text, std::vector<Span>& spans) {
    cover_runs(text, kind_of_character, 0, false, spans);
    return Result<void>{};
  });
}

Result<void> apply(const WhitespaceSplit&, Words& words, Budget&) {
  return divide(words, Behavior::removed, [](std::string_view text, std::vector<Span>& spans) {
    cover_runs(
        text, [](char32_t code) { return static_cast<std::uint8_t>(is_blank(code)); }, 1, false, spans);
    return Result<void>{};
  });
}

Result<ByteLevel> read_byte_level(const Part& part) {
  GPUACTORS_TRY(allow_only(part, {"add_prefix_space", "trim_offsets", "use_regex"}));
  GPUACTORS_LET(adds_space, read_flag(part, "add_prefix_space"));
  GPUACTORS_LET(uses_regex, read_flag(part, "use_regex", true));
  ByteLevel level{adds_space, {}};
  if (uses_regex) {
    // That of GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019).
    GPUACTORS_LET(pattern, Pattern::regex(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+)"
                                          R"(|\s+(?!\S)|\s+)"));
    level.pattern = std::move(pattern);
  }
  return level;
}

} // namespace

Result<Metaspace> Metaspace::read(const Part& part) {
  GPUACTORS_TRY(allow_only(part, {"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}));
  GPUACTORS_LET(character, read_character(part, "replacement"));
  GPUACTORS_LET(splits, read_flag(part, "split", true));
  GPUACTORS_LET(adds_space, read_flag(part, "add_prefix_space", true));
  Metaspace meta{character, Scheme::always, splits};
  if (part.json->contains("prepend_scheme")) {
    GPUACTORS_LET(scheme, read_text(part, "prepend_scheme"));
    if (scheme != "always" && scheme != "first" && scheme != "never")
      return fail(Errc::unsupported, fmt::format("prepend_scheme of the {} in tokenizer.json is {}; it is always, "
                                                 "first or never",
                                                 part.name, quote(scheme)));
    meta.scheme = scheme == "always" ? Scheme::always : scheme == "first" ? Scheme::first : Scheme::never;
  }
  if (!adds_space && meta.scheme != Scheme::never)
    return fail(Errc::invalid_argument,
                fmt::format("the {} in tokenizer.json has add_prefix_space false, and a prepend_scheme that is not "
                            "never",
                            part.name));
  return meta;
}

Result<Splitter::Step> Splitter::read_step(const Part& part, bool is_changed) {
  if (part.type == "ByteLevel") {
    GPUACTORS_LET(level, read_byte_level(part));
    return Step{std::move(level)};
  }
  if (part.type == "Split") {
    GPUACTORS_TRY(allow_only(part, {"pattern", "behavior", "invert"}));
    GPUACTORS_LET(pattern, Pattern::read(part));
    GPUACTORS_LET(behavior, read_behavior(part));
    GPUACTORS_LET(is_inverted, read_flag(part, "invert"));
    return Step{Split{std::move(pattern), behavior, is_inverted}};
  }
  if (part.type == "Metaspace") {
    GPUACTORS_LET(meta, Metaspace::read(part));
    if (meta.scheme == Metaspace::Scheme::first && is_changed)
      return fail(Errc::unsupported, fmt::format("the {} in tokenizer.json has the prepend_scheme first after what "
                                                 "changes the text, which is not known here",
                                                 part.name));
    return Step{meta};
  }
  if (part.type == "Digits") {
    GPUACTORS_TRY(allow_only(part, {"individual_digits"}));
    GPUACTORS_LET(is_each, read_flag(part, "individual_digits"));
    return Step{Digits{is_each}};
  }
  if (part.type != "Whitespace" && part.type != "WhitespaceSplit")
    return refuse_type(part, splitter_types);
  GPUACTORS_TRY(allow_only(part, {}));
  return part.type == "Whitespace" ? Step{Whitespace{}} : Step{WhitespaceSplit{}};
}

Result<Splitter> Splitter::read(const Json& file, bool is_normalized) {
  GPUACTORS_LET(parts, read_parts(file, "pre_tokenizer", "pretokenizers"));
  Splitter splitter;
  bool is_changed = is_normalized;
  for (const auto& part : parts) {
    GPUACTORS_LET(step, read_step(part, is_changed));
    is_changed = is_changed || part.type == "ByteLevel" || part.type == "Metaspace";
    splitter.steps_.push_back(std::move(step));
  }
  return splitter;
}

Result<void> Splitter::split(Words& words, Budget& budget) const {
  for (const auto& step : steps_)
    GPUACTORS_TRY(std::visit([&](const auto& one) { return apply(one, words, budget); }, step));
  return {};
}

} // namespace llm::tokenizer
