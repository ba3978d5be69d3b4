// Finding tokens in texts.
#include <apps/llm/tokenizer/added_tokens.hpp>
#include <apps/llm/tokenizer/characters.hpp>
#include <apps/llm/tokenizer/utf8.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace llm::tokenizer {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using Json = nlohmann::json;

// -- finder --------------------------------------------------------------------

Finder::Finder() : ends_(1) {
  // nop
}

std::uint32_t Finder::next(std::uint32_t node, char byte) const {
  const auto found = nodes_.find((std::uint64_t{node} << 8U) | static_cast<unsigned char>(byte));
  return found == nodes_.end() ? 0 : found->second;
}

bool Finder::add(std::string_view text, std::size_t index) {
  begins_[static_cast<unsigned char>(text[0])] = true;
  std::uint32_t node = 0;
  for (const char byte : text) {
    auto& follower = nodes_[(std::uint64_t{node} << 8U) | static_cast<unsigned char>(byte)];
    if (follower == 0) {
      follower = static_cast<std::uint32_t>(ends_.size());
      ends_.push_back(0);
    }
    node = follower;
  }
  return std::exchange(ends_[node], index + 1) == 0;
}

std::optional<Finder::Found> Finder::find(std::string_view text, std::size_t from, Budget& budget) const {
  for (auto begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])])
      continue;
    std::optional<Found> longest;
    std::uint32_t node = 0;
    for (auto at = begin; at < text.size(); ++at) {
      if (--budget.steps <= 0)
        return std::nullopt;
      node = next(node, text[at]);
      if (node == 0)
        break;
      if (ends_[node] != 0)
        longest = Found{begin, at + 1, ends_[node] - 1};
    }
    if (longest)
      return longest;
  }
  return std::nullopt;
}

// -- reading -------------------------------------------------------------------

Result<AddedTokens> AddedTokens::read(const Json& file, const Bpe& model, const Normalizer& normalizer) {
  AddedTokens added;
  const auto list = file.find("added_tokens");
  if (list == file.end() || list->is_null())
    return added;
  constexpr std::size_t most_tokens = 100'000;
  if (!list->is_array() || list->size() > most_tokens)
    return fail(Errc::invalid_argument,
                fmt::format("added_tokens in tokenizer.json is no list of at most {} tokens", most_tokens));
  auto next_id = static_cast<std::int32_t>(model.size());
  for (const auto& one : *list)
    GPUACTORS_TRY(added.add(one, model, normalizer, next_id));
  for (const auto& token : added.tokens_)
    if (const auto* same = added.find(token.form); same != nullptr && same->is_special && !token.is_special)
      return fail(Errc::unsupported, fmt::format("normalizers make the special token {} of the added token {} in "
                                                 "tokenizer.json, which is none",
                                                 quote(same->content), quote(token.content)));
  return added;
}

Result<void> AddedTokens::add(const Json& json, const Bpe& model, const Normalizer& normalizer, std::int32_t& next_id) {
  const Part part{&json, "added token", {}};
  if (!json.is_object())
    return fail(Errc::invalid_argument, "an added token in tokenizer.json is no object");
  GPUACTORS_TRY(allow_only(part, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token;
  GPUACTORS_LET(content, read_text(part, "content"));
  GPUACTORS_LET(id, read_id(json.value("id", Json{}), quote(content)));
  GPUACTORS_LET(is_word, read_flag(part, "single_word"));
  GPUACTORS_LET(takes_left, read_flag(part, "lstrip"));
  GPUACTORS_LET(takes_right, read_flag(part, "rstrip"));
  GPUACTORS_LET(is_normalized, read_flag(part, "normalized"));
  GPUACTORS_LET(is_special, read_flag(part, "special"));
  // Each position of a text is compared with it.
  constexpr std::size_t most_bytes = 1024;
  if (content.empty() || content.size() > most_bytes)
    return fail(Errc::invalid_argument, fmt::format("the added token with the ID {} in tokenizer.json has {} bytes; it "
                                                    "has 1 to {}",
                                                    id, content.size(), most_bytes));
  if (takes_right && is_blank(character_at(content, 0).code))
    return fail(Errc::unsupported, fmt::format("the added token with the ID {} in tokenizer.json begins with a blank "
                                               "and has rstrip, which is not known here",
                                               id));
  const auto known = model.find(content);
  const auto expected = known ? *known : next_id++;
  if (id != expected || (!known && model.text_of(id)))
    return fail(Errc::invalid_argument,
                fmt::format("the added token {} in tokenizer.json has the ID {}; {} {}", quote(content), id,
                            known ? "the model has it with" : "the next one that is free is", expected));
  auto form = content;
  if (is_normalized) {
    auto budget = Budget::for_text(content.size());
    GPUACTORS_LET(normal, normalizer.normalize(content, budget));
    form = std::move(normal);
  }
  const auto index = tokens_.size();
  const bool is_new = by_content_.emplace(content, index).second && by_id_.emplace(id, index).second;
  if (form.empty() || form.size() > most_bytes || !is_new
      || !(is_normalized ? normalized_ : as_written_).add(form, index))
    return fail(Errc::invalid_argument,
                fmt::format("the added token {} in tokenizer.json is there twice, or normalizers make nothing of it, "
                            "more than {} bytes, or the same as of another one",
                            quote(content), most_bytes));
  tokens_.push_back(
      {id, std::move(content), std::move(form), is_word, takes_left, takes_right, is_normalized, is_special});
  return {};
}

// -- finding -------------------------------------------------------------------

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string{content});
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

/// Adds the words of a text that lies at `shift` in that of the words. Two tokens that both take the blanks between
/// them can overlap, as with Hugging Face's library.
Result<void> AddedTokens::find_in(std::string_view text, std::size_t shift, const Finder& finder, Budget& budget,
                                  std::vector<Word>& words) const {
  const auto add = [&](std::size_t begin, std::size_t end, std::optional<std::int32_t> token) {
    if (begin < end)
      words.push_back({shift + begin, shift + end, token});
  };
  std::size_t done = 0;
  std::size_t from = 0;
  while (const auto found = finder.find(text, from, budget)) {
    auto [begin, end, index] = *found;
    from = end;
    const auto& token = tokens_[index];
    if (token.is_word
        && ((begin > 0 && is_word_character(character_before(text, begin).code))
            || (end < text.size() && is_word_character(character_at(text, end).code))))
      continue;
    while (token.takes_left && begin > done && is_blank(character_before(text, begin).code))
      begin -= character_before(text, begin).bytes;
    if (token.takes_left)
      begin = std::max(begin, done);
    while (token.takes_right && end < text.size() && is_blank(character_at(text, end).code))
      end += character_at(text, end).bytes;
    add(done, begin, {});
    add(begin, end, token.id);
    done = end;
  }
  if (budget.steps <= 0)
    return fail(Errc::invalid_argument, "added tokens of tokenizer.json begin too often in this text");
  add(done, text.size(), {});
  return {};
}

Result<Words> AddedTokens::extract(std::string_view text, const Normalizer& normalizer, Budget& budget) const {
  std::vector<Word> found;
  GPUACTORS_TRY(find_in(text, 0, as_written_, budget, found));
  Words words;
  if (normalizer.is_empty())
    words.text = text;
  for (const auto& word : found) {
    if (word.token) {
      words.list.push_back({0, 0, word.token});
      continue;
    }
    auto shift = word.begin;
    auto size = word.end - word.begin;
    if (!normalizer.is_empty()) {
      GPUACTORS_LET(normal, normalizer.normalize(std::string{text.substr(word.begin, size)}, budget));
      shift = words.text.size();
      size = normal.size();
      words.text += normal;
      if (words.text.size() > most_changed)
        return fail(Errc::invalid_argument, fmt::format("the normalizer of tokenizer.json makes more than {} bytes of "
                                                        "this text",
                                                        most_changed));
    }
    GPUACTORS_TRY(find_in(std::string_view{words.text}.substr(shift, size), shift, normalized_, budget, words.list));
  }
  return words;
}

} // namespace llm::tokenizer
