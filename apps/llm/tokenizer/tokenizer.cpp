// A tokenizer's parts in their order.
#include <apps/llm/json.hpp>
#include <apps/llm/tokenizer/added_tokens.hpp>
#include <apps/llm/tokenizer/bpe.hpp>
#include <apps/llm/tokenizer/joiner.hpp>
#include <apps/llm/tokenizer/normalizer.hpp>
#include <apps/llm/tokenizer/splitter.hpp>
#include <apps/llm/tokenizer/template.hpp>
#include <apps/llm/tokenizer/tokenizer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace llm {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using Json = nlohmann::json;

namespace tokenizer {

struct Parts {
  Bpe model;
  Normalizer normalizer;
  AddedTokens added;
  Splitter splitter;
  Template around;
  Joining joining;
};

namespace {

Result<void> check_file(const Json& file) {
  const Part whole{&file, "file", {}};
  GPUACTORS_TRY(allow_only(whole, {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                                   "post_processor", "decoder", "model"}));
  if (const auto version = file.value("version", Json{"1.0"}); version != "1.0")
    return fail(Errc::unsupported,
                fmt::format("tokenizer.json has the version {}; it is \"1.0\"", quote(version.dump())));
  for (const char* name : {"truncation", "padding"})
    if (!file.value(name, Json{}).is_null())
      return fail(Errc::unsupported,
                  fmt::format("tokenizer.json asks for {}, which there is none of here: set it to null", name));
  return {};
}

Result<Parts> read_all(const Json& file) {
  // Its type is what matters most: it is said first.
  GPUACTORS_LET(model, Bpe::read(file));
  GPUACTORS_TRY(check_file(file));
  GPUACTORS_LET(normalizer, Normalizer::read(file));
  GPUACTORS_LET(added, AddedTokens::read(file, model, normalizer));
  GPUACTORS_LET(splitter, Splitter::read(file, !normalizer.is_empty()));
  GPUACTORS_LET(around, Template::read(file));
  GPUACTORS_LET(joining, Joining::read(file));
  for (const auto token : around.special())
    if (!model.text_of(token) && added.find(token) == nullptr)
      return fail(
          Errc::invalid_argument,
          fmt::format("the post_processor in tokenizer.json puts the token {} around texts, which there is none "
                      "of",
                      token));
  return Parts{std::move(model),    std::move(normalizer), std::move(added),
               std::move(splitter), std::move(around),     std::move(joining)};
}

} // namespace

} // namespace tokenizer

Result<Tokenizer> read_tokenizer(std::string_view text) {
  constexpr std::size_t most_bytes = std::size_t{128} << 20;
  if (text.size() > most_bytes)
    return fail(Errc::invalid_argument,
                fmt::format("tokenizer.json has {} bytes; it has at most {}", text.size(), most_bytes));
  GPUACTORS_LET(file, parse_object(text, "tokenizer.json"));
  try {
    GPUACTORS_LET(parts, tokenizer::read_all(file));
    return Tokenizer{std::make_shared<const tokenizer::Parts>(std::move(parts))};
  } catch (const Json::exception& error) {
    return fail(Errc::invalid_argument, fmt::format("tokenizer.json: {}", error.what()));
  }
}

// -- tokenizer -----------------------------------------------------------------

Tokenizer::Tokenizer(std::shared_ptr<const tokenizer::Parts> parts) : parts_(std::move(parts)) {
  // nop
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, bool adds_special) const {
  if (text.size() > tokenizer::most_text)
    return fail(Errc::invalid_argument,
                fmt::format("the text has {} bytes; it has at most {}", text.size(), tokenizer::most_text));
  if (const auto wrong = tokenizer::find_no_utf8(text))
    return fail(Errc::invalid_argument, fmt::format("the text is no UTF-8 at byte {}", *wrong));
  auto budget = tokenizer::Budget::for_text(text.size());
  GPUACTORS_LET(words, parts_->added.extract(text, parts_->normalizer, budget));
  GPUACTORS_TRY(parts_->splitter.split(words, budget));
  std::vector<std::int32_t> tokens;
  for (const auto& word : words.list) {
    if (word.token)
      tokens.push_back(*word.token);
    else
      parts_->model.merge(std::string_view{words.text}.substr(word.begin, word.end - word.begin), tokens);
  }
  return parts_->around.apply(std::move(tokens), adds_special);
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  TextOfTokens text{*this};
  std::string whole;
  for (const auto token : tokens)
    whole += text.take(token);
  return whole + text.finish();
}

std::optional<std::int32_t> Tokenizer::find(std::string_view token) const {
  const auto* added = parts_->added.find(token);
  return added != nullptr ? std::optional{added->id} : parts_->model.find(token);
}

std::optional<std::string_view> Tokenizer::text_of(std::int32_t token) const {
  const auto* added = parts_->added.find(token);
  return added != nullptr ? std::optional{std::string_view{added->content}} : parts_->model.text_of(token);
}

bool Tokenizer::is_special(std::int32_t token) const {
  const auto* added = parts_->added.find(token);
  return added != nullptr && added->is_special;
}

std::int32_t Tokenizer::end() const {
  auto end = parts_->model.end();
  for (const auto& token : parts_->added.all())
    end = std::max(end, token.id + 1);
  return end;
}

std::int64_t Tokenizer::size() const {
  const auto& all = parts_->added.all();
  return parts_->model.size()
         + std::count_if(all.begin(), all.end(), [&](const auto& token) { return !parts_->model.text_of(token.id); });
}

// -- text of tokens ------------------------------------------------------------

TextOfTokens::TextOfTokens(const Tokenizer& tokenizer, tokenizer::Begins begins)
  : parts_(tokenizer.parts_), joiner_(std::make_unique<tokenizer::Joiner>(parts_->joining, begins)) {
  // nop
}

TextOfTokens::TextOfTokens(TextOfTokens&& other) noexcept = default;
TextOfTokens& TextOfTokens::operator=(TextOfTokens&& other) noexcept = default;
TextOfTokens::~TextOfTokens() = default;

std::string TextOfTokens::take(std::int32_t token) {
  const auto* added = parts_->added.find(token);
  if (added != nullptr)
    return added->is_special ? std::string{} : joiner_->take(added->form);
  const auto text = parts_->model.text_of(token);
  return text ? joiner_->take(*text) : std::string{};
}

std::string TextOfTokens::finish() {
  auto rest = joiner_->finish();
  *joiner_ = tokenizer::Joiner{parts_->joining};
  return rest;
}

} // namespace llm
