// Normalizing with ICU.
#include <apps/llm/tokenizer/characters.hpp>
#include <apps/llm/tokenizer/normalizer.hpp>
#include <apps/llm/tokenizer/utf8.hpp>

#include <fmt/format.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

namespace llm::tokenizer {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using Json = nlohmann::json;

namespace {

struct Forms {
  icu::UnicodeSet known;
  std::unique_ptr<icu::FilteredNormalizer2> forms[4];
  UErrorCode status = U_ZERO_ERROR;
};

/// The normal forms of characters that Unicode 9 has, made once.
const Forms& get_forms() {
  static const auto made = [] {
    auto all = std::make_unique<Forms>();
    auto& status = all->status;
    all->known.applyPattern(icu::UnicodeString::fromUTF8("[:age=9.0:]"), status);
    all->known.freeze();
    const icu::Normalizer2* const whole[]{
        icu::Normalizer2::getNFCInstance(status), icu::Normalizer2::getNFDInstance(status),
        icu::Normalizer2::getNFKCInstance(status), icu::Normalizer2::getNFKDInstance(status)};
    for (std::size_t i = 0; i < 4 && U_SUCCESS(status); ++i)
      all->forms[i] = std::make_unique<icu::FilteredNormalizer2>(*whole[i], all->known);
    return all;
  }();
  return *made;
}

/// ICU sorts marks by insertion: a text of nothing else would take hours.
Result<void> check_marks(std::string_view text) {
  constexpr int most_marks = 1024;
  int marks = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    const auto code = static_cast<UChar32>(character.code);
    // These two become marks in the forms of compatibility.
    const bool is_mark =
        code >= 0x300
        && (u_getIntPropertyValue(code, UCHAR_LEAD_CANONICAL_COMBINING_CLASS) != 0 || code == 0xFF9E || code == 0xFF9F);
    marks = is_mark ? marks + 1 : 0;
    if (marks > most_marks)
      return fail(Errc::invalid_argument, fmt::format("the text has more than {} combining marks on one character at "
                                                      "byte {}",
                                                      most_marks, at));
    at += character.bytes;
  }
  return {};
}

Result<std::string> apply(Form form, std::string text, Budget&) {
  const bool is_ascii = std::all_of(text.begin(), text.end(), [](char one) { return one >= 0; });
  if (is_ascii)
    return text;
  GPUACTORS_TRY(check_marks(text));
  const auto& all = get_forms();
  auto status = all.status;
  std::string normal;
  icu::StringByteSink<std::string> sink{&normal, static_cast<std::int32_t>(text.size())};
  if (U_SUCCESS(status))
    all.forms[static_cast<std::size_t>(form)]->normalizeUTF8(
        0, icu::StringPiece{text.data(), static_cast<std::int32_t>(text.size())}, sink, nullptr, status);
  if (U_FAILURE(status))
    return fail(Errc::internal, fmt::format("ICU could not normalize a text: {}", u_errorName(status)));
  return normal;
}

Result<std::string> apply(const Lowercase&, const std::string& text, Budget&) {
  std::string lower;
  lower.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    at += character.bytes;
    // The only one whose lower case is two characters, in every language but Turkish.
    constexpr char32_t dotted_i = 0x130;
    if (character.code == dotted_i)
      lower += "i\xCC\x87";
    else
      append(lower, static_cast<char32_t>(u_tolower(static_cast<UChar32>(character.code))));
  }
  return lower;
}

Result<std::string> apply(const Strip& strip, const std::string& text, Budget&) {
  std::size_t begin = 0;
  auto end = text.size();
  while (strip.left && begin < end && is_blank(character_at(text, begin).code))
    begin += character_at(text, begin).bytes;
  while (strip.right && begin < end && is_blank(character_before(text, end).code))
    end -= character_before(text, end).bytes;
  return text.substr(begin, end - begin);
}

Result<std::string> apply(const Prepend& prepend, std::string text, Budget&) {
  if (!text.empty())
    text.insert(0, prepend.text);
  return text;
}

Result<std::string> apply(const Replace& replace, const std::string& text, Budget& budget) {
  std::vector<Span> spans;
  GPUACTORS_TRY(Search{replace.pattern, budget}.cover(text, spans));
  std::string replaced;
  replaced.reserve(text.size());
  for (const auto& span : spans) {
    if (span.is_match && span.begin == span.end)
      return fail(Errc::unsupported, "the regular expression of a normalizer in tokenizer.json matches nothing, which "
                                     "is not known here");
    replaced += span.is_match ? std::string_view{replace.text}
                              : std::string_view{text}.substr(span.begin, span.end - span.begin);
    if (replaced.size() > most_changed)
      break; // normalize() says so
  }
  return replaced;
}

} // namespace

Result<Normalizer> Normalizer::read(const Json& file) {
  GPUACTORS_LET(parts, read_parts(file, "normalizer", "normalizers"));
  Normalizer normalizer;
  for (const auto& part : parts) {
    constexpr std::string_view forms[]{"NFC", "NFD", "NFKC", "NFKD"};
    if (const auto* form = std::find(std::begin(forms), std::end(forms), part.type); form != std::end(forms)) {
      GPUACTORS_TRY(allow_only(part, {}));
      normalizer.steps_.emplace_back(static_cast<Form>(form - std::begin(forms)));
    } else if (part.type == "Lowercase") {
      GPUACTORS_TRY(allow_only(part, {}));
      normalizer.steps_.emplace_back(Lowercase{});
    } else if (part.type == "Strip") {
      GPUACTORS_TRY(allow_only(part, {"strip_left", "strip_right"}));
      GPUACTORS_LET(left, read_flag(part, "strip_left"));
      GPUACTORS_LET(right, read_flag(part, "strip_right"));
      normalizer.steps_.emplace_back(Strip{left, right});
    } else if (part.type == "Prepend") {
      GPUACTORS_TRY(allow_only(part, {"prepend"}));
      GPUACTORS_LET(text, read_text(part, "prepend"));
      // Hugging Face's library loses count of its characters then.
      if (text.empty())
        return fail(Errc::unsupported,
                    "a normalizer Prepend in tokenizer.json prepends nothing, which is not known here");
      normalizer.steps_.emplace_back(Prepend{std::move(text)});
    } else if (part.type == "Replace") {
      GPUACTORS_TRY(allow_only(part, {"pattern", "content"}));
      GPUACTORS_LET(pattern, Pattern::read(part));
      GPUACTORS_LET(text, read_text(part, "content"));
      normalizer.steps_.emplace_back(Replace{std::move(pattern), std::move(text)});
    } else {
      return refuse_type(part, "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip and Sequence");
    }
  }
  return normalizer;
}

Result<std::string> Normalizer::normalize(std::string text, Budget& budget) const {
  for (const auto& step : steps_) {
    auto next = std::visit([&](const auto& one) { return apply(one, std::move(text), budget); }, step);
    if (!next)
      return next;
    if (next->size() > most_changed)
      return fail(Errc::invalid_argument, fmt::format("the normalizer of tokenizer.json makes more than {} bytes of "
                                                      "this text",
                                                      most_changed));
    text = std::move(*next);
    // Of many pieces of a text, each may become long, and short again.
    budget.steps -= static_cast<std::int64_t>(text.size() / 8);
    if (budget.steps <= 0)
      return fail(Errc::invalid_argument, "the normalizer of tokenizer.json takes too long for this text");
  }
  return text;
}

} // namespace llm::tokenizer
