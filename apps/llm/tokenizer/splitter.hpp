// How a text is split into words before a model merges their characters (pre-tokenizers). Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <apps/llm/tokenizer/pattern.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace llm::tokenizer {

/// A word, or a token that was found in the text.
struct Word {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::optional<std::int32_t> token = {};
};

/// A text and its words, which lie in it and are not empty; where a token lies does not matter.
struct Words {
  std::string text;
  std::vector<Word> list;
};

struct Split {
  Pattern pattern;
  Behavior behavior = Behavior::isolated;
  bool is_inverted = false;
};

struct ByteLevel {
  bool adds_space = false;
  /// GPT-2's, if it is used.
  std::optional<Pattern> pattern;
};

struct Metaspace {
  enum class Scheme : std::uint8_t { always, first, never };
  char32_t character = 0;
  Scheme scheme = Scheme::always;
  bool splits = true;

  /// Reads what pre-tokenizers and decoders of this type have.
  static gpuactors::Result<Metaspace> read(const Part& part);
};

struct Digits {
  bool is_each = false;
};

/// Runs of letters and the like, and of what is neither that nor blank.
struct Whitespace {};

/// What is not blank.
struct WhitespaceSplit {};

/// Any thread may split with it at the same time as others.
class Splitter {
public:
  /// Reads the entry `pre_tokenizer` of a file.
  /// @param is_normalized whether normalizers come before.
  /// @returns `unsupported` for types other than Split, ByteLevel, Metaspace, Digits, Whitespace, WhitespaceSplit and
  ///          Sequence, and for a Metaspace with the scheme "first" after what changes the text: it asks where in the
  ///          unchanged text a word began.
  static gpuactors::Result<Splitter> read(const nlohmann::json& file, bool is_normalized);

  /// Splits all words that are no tokens.
  gpuactors::Result<void> split(Words& words, Budget& budget) const;

private:
  using Step = std::variant<Split, ByteLevel, Metaspace, Digits, Whitespace, WhitespaceSplit>;

  static gpuactors::Result<Step> read_step(const Part& part, bool is_changed);

  std::vector<Step> steps_;
};

} // namespace llm::tokenizer
