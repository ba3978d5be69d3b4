// The model of a tokenizer: characters of a word become tokens, of which pairs are merged in the order that the file
// has them (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016). Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace llm::tokenizer {

/// Any thread may merge with it at the same time as others.
class Bpe {
public:
  /// Reads the entry `model` of a file.
  /// @returns `unsupported` for models of other types, with dropout, or with prefixes or suffixes of words;
  ///          `invalid_argument` for merges of tokens that are not there, tokens with one ID, and the like.
  static gpuactors::Result<Bpe> read(const nlohmann::json& file);

  Bpe(Bpe&&) = default;
  Bpe& operator=(Bpe&&) = default;
  Bpe(const Bpe&) = delete; // texts_ has views of the keys of ids_
  Bpe& operator=(const Bpe&) = delete;
  ~Bpe() = default;

  /// Adds the tokens of a word. The time grows with its length n as n log n.
  void merge(std::string_view word, std::vector<std::int32_t>& tokens) const;

  [[nodiscard]] std::optional<std::int32_t> find(std::string_view token) const;

  /// The text of a token, or nothing. It lives as long as this.
  [[nodiscard]] std::optional<std::string_view> text_of(std::int32_t token) const;

  /// How many tokens there are.
  [[nodiscard]] std::int64_t size() const {
    return static_cast<std::int64_t>(ids_.size());
  }

  /// The first ID above all of them.
  [[nodiscard]] std::int32_t end() const {
    return end_;
  }

private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  struct HashPair {
    std::size_t operator()(std::uint64_t pair) const noexcept {
      constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;
      return static_cast<std::size_t>((pair * golden) ^ (pair >> 29U));
    }
  };

  static std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) | static_cast<std::uint32_t>(right);
  }

  Bpe() = default;

  gpuactors::Result<void> read_vocabulary(const nlohmann::json& json);
  gpuactors::Result<void> read_merges(const nlohmann::json& json);
  gpuactors::Result<void> add_merge(std::string_view left, std::string_view right);
  gpuactors::Result<void> read_unknown(const nlohmann::json& json);

  /// The place of two tokens in the list of merges, or -1.
  [[nodiscard]] std::int32_t rank_of(std::int32_t left, std::int32_t right) const {
    const auto found = merges_.find(pair_of(left, right));
    return found == merges_.end() ? -1 : found->second;
  }

  [[nodiscard]] std::vector<std::int32_t> begin(std::string_view word) const;
  [[nodiscard]] bool fall_back(std::string_view character, std::vector<std::int32_t>& tokens) const;

  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  /// By ID, the keys above.
  std::unordered_map<std::int32_t, std::string_view> texts_;
  /// By two tokens, their places in the list of merges.
  std::unordered_map<std::uint64_t, std::int32_t, HashPair> merges_;
  /// By place, what two tokens become.
  std::vector<std::int32_t> merged_;
  std::int32_t end_ = 0;

  std::optional<std::int32_t> unknown_;
  bool fuses_unknown_ = false;
  /// Whether a word that is a token is that one, whatever merges would make of it.
  bool ignores_merges_ = false;
  bool has_fallback_ = false;
  /// The tokens of bytes, <0x00> and so on, or -1.
  std::array<std::int32_t, 256> bytes_{};
};

} // namespace llm::tokenizer
