// Tokens that are found in a text as they are, before words are made of it: those that mark the turns of a chat, say.
// Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <apps/llm/tokenizer/bpe.hpp>
#include <apps/llm/tokenizer/normalizer.hpp>
#include <apps/llm/tokenizer/splitter.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace llm::tokenizer {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  /// What is looked for, and what the token is decoded as: the content, or what normalizers make of it.
  std::string form;
  /// Whether it is none where a letter or the like is next to it.
  bool is_word = false;
  /// Whether it takes the blanks beside it.
  bool takes_left = false;
  bool takes_right = false;
  bool is_normalized = false;
  bool is_special = false;
};

/// Finds the longest of some texts at each position. Any thread.
class Finder {
public:
  Finder();

  /// @returns whether there was none of this text before.
  bool add(std::string_view text, std::size_t index);

  struct Found {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t index = 0;
  };

  /// The leftmost one from `from` on, and of these the longest. Each byte of one that begins takes a step, and without
  /// any left nothing is found.
  [[nodiscard]] std::optional<Found> find(std::string_view text, std::size_t from, Budget& budget) const;

private:
  /// A trie: for a node and a byte the next node, or 0.
  [[nodiscard]] std::uint32_t next(std::uint32_t node, char byte) const;

  std::unordered_map<std::uint64_t, std::uint32_t> nodes_;
  /// By node: one more than the index of the text that ends there, or 0.
  std::vector<std::size_t> ends_;
  std::array<bool, 256> begins_{};
};

/// Any thread may use it at the same time as others.
class AddedTokens {
public:
  /// Reads the entry `added_tokens` of a file.
  /// @returns `invalid_argument` for two of the same content, or an ID that Hugging Face's library would not give it:
  ///          tokens that the model does not have follow its last one, in their order; `unsupported` for
  ///          one with `rstrip` that begins with a blank, and one that normalizers make a special token of.
  static gpuactors::Result<AddedTokens> read(const nlohmann::json& file, const Bpe& model,
                                             const Normalizer& normalizer);

  /// The text with its tokens, normalized between them.
  /// @returns what a Normalizer returns; `invalid_argument` for one of more than `most_changed` bytes, and if looking
  /// for
  ///          tokens takes more steps than there may be.
  gpuactors::Result<Words> extract(std::string_view text, const Normalizer& normalizer, Budget& budget) const;

  [[nodiscard]] const AddedToken* find(std::string_view content) const;
  [[nodiscard]] const AddedToken* find(std::int32_t id) const;

  [[nodiscard]] const std::vector<AddedToken>& all() const {
    return tokens_;
  }

private:
  gpuactors::Result<void> add(const nlohmann::json& json, const Bpe& model, const Normalizer& normalizer,
                              std::int32_t& next_id);
  gpuactors::Result<void> find_in(std::string_view text, std::size_t shift, const Finder& finder, Budget& budget,
                                  std::vector<Word>& words) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> by_content_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  /// Of those that are looked for before the text is normalized, and after.
  Finder as_written_;
  Finder normalized_;
};

} // namespace llm::tokenizer
