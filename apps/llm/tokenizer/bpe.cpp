// Merging with a heap of the pairs that are there.
#include <apps/llm/tokenizer/bpe.hpp>
#include <apps/llm/tokenizer/utf8.hpp>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace llm::tokenizer {

namespace {

/// A token of a word, in a list from left to right.
struct Symbol {
  std::int32_t token = 0;
  /// -1 at the ends.
  std::int32_t left = -1;
  std::int32_t right = -1;
  bool is_gone = false;
};

/// Two neighbours that could be merged, by their place in the list of merges and that of the left one in the word: in
/// one number, because a heap of these takes half the time of one of structs.
using Candidate = std::uint64_t;

Candidate candidate(std::int32_t rank, std::int32_t at) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank)) << 32U) | static_cast<std::uint32_t>(at);
}

} // namespace

std::optional<std::int32_t> Bpe::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<std::string_view> Bpe::text_of(std::int32_t token) const {
  const auto found = texts_.find(token);
  return found == texts_.end() ? std::nullopt : std::optional{found->second};
}

bool Bpe::fall_back(std::string_view character, std::vector<std::int32_t>& tokens) const {
  const auto token_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  if (!has_fallback_ || std::any_of(character.begin(), character.end(), [&](char byte) { return token_of(byte) < 0; }))
    return false;
  for (const char byte : character)
    tokens.push_back(token_of(byte));
  return true;
}

std::vector<std::int32_t> Bpe::begin(std::string_view word) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(word.size());
  bool has_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const auto character = word.substr(at, character_at(word, at).bytes);
    at += character.size();
    if (const auto token = find(character)) {
      if (has_unknown)
        tokens.push_back(*unknown_);
      has_unknown = false;
      tokens.push_back(*token);
      continue;
    }
    // Hugging Face's library adds an unknown character after bytes that follow it: where some bytes are tokens only.
    if (fall_back(character, tokens) || !unknown_)
      continue;
    if (has_unknown && !fuses_unknown_)
      tokens.push_back(*unknown_);
    has_unknown = true;
  }
  if (has_unknown)
    tokens.push_back(*unknown_);
  return tokens;
}

void Bpe::merge(std::string_view word, std::vector<std::int32_t>& tokens) const {
  if (ignores_merges_)
    if (const auto whole = find(word)) {
      tokens.push_back(*whole);
      return;
    }
  const auto first = begin(word);
  const auto count = static_cast<std::int32_t>(first.size());
  std::vector<Symbol> symbols(first.size());
  std::vector<Candidate> found;
  for (std::int32_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    symbols[at] = {first[at], i - 1, i + 1 < count ? i + 1 : -1, false};
    if (const auto rank = i + 1 < count ? rank_of(first[at], first[at + 1]) : -1; rank >= 0)
      found.push_back(candidate(rank, i));
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap{std::greater<>{}, std::move(found)};
  const auto symbol = [&](std::int32_t at) -> Symbol& { return symbols[static_cast<std::size_t>(at)]; };
  const auto offer = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0)
      return;
    if (const auto rank = rank_of(symbol(left).token, symbol(right).token); rank >= 0)
      heap.push(candidate(rank, left));
  };
  while (!heap.empty()) {
    const auto at = static_cast<std::int32_t>(heap.top() & 0xFFFFFFFFU);
    const auto token = merged_[heap.top() >> 32U];
    heap.pop();
    auto& left = symbol(at);
    if (left.is_gone || left.right < 0)
      continue;
    auto& right = symbol(left.right);
    // One of the two may have become another since; that the result is the same is what Hugging Face's library asks.
    if (const auto rank = rank_of(left.token, right.token);
        rank < 0 || merged_[static_cast<std::size_t>(rank)] != token)
      continue;
    left.token = token;
    left.right = right.right;
    right.is_gone = true;
    if (left.right >= 0)
      symbol(left.right).left = at;
    offer(left.left, at);
    offer(at, left.right);
  }
  for (const auto& one : symbols)
    if (!one.is_gone)
      tokens.push_back(one.token);
}

} // namespace llm::tokenizer
