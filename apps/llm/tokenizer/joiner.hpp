// How the texts of tokens become one text (decoders), as the tokens come. Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <apps/llm/tokenizer/begins.hpp>
#include <apps/llm/tokenizer/pattern.hpp>
#include <apps/llm/tokenizer/splitter.hpp>
#include <apps/llm/tokenizer/utf8.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace llm::tokenizer {

/// Changes each text for itself. The pattern is no regular expression.
struct ReplaceIn {
  Pattern pattern;
  std::string text;
};

/// Removes a character from the beginning of each text, up to `most` times.
struct StripBegin {
  char32_t character = 0;
  std::int64_t most = 0;
};

/// Texts such as <0x41> are bytes. As Hugging Face's library has it, all bytes of a run are characters together, or all
/// of them are U+FFFD.
struct ByteFallback {};

/// The character that stands for a space becomes one; in the first text it vanishes, if one was put there.
struct Unmeta {
  char32_t character = 0;
  bool drops_first = false;
};

/// The decoders of a file. Those up to Fuse or ByteLevel take texts of tokens and give such, those after it see one
/// text, which comes in pieces. Any thread may use it at the same time as others.
class Joining {
public:
  using Step = std::variant<ReplaceIn, StripBegin, ByteFallback, Unmeta>;

  /// How texts are one in the end.
  enum class Fusing : std::uint8_t { as_they_are, with_spaces, as_bytes };

  /// Reads the entry `decoder` of a file.
  /// @returns `unsupported` for types other than ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace and Sequence;
  ///          for a Replace with a regular expression, and a Strip of ends; and, for what follows Fuse or ByteLevel,
  ///          for what needs the whole text: ByteFallback, ByteLevel, and a Replace of other than one character.
  static gpuactors::Result<Joining> read(const nlohmann::json& file);

  [[nodiscard]] const std::vector<Step>& of_texts() const {
    return of_texts_;
  }
  [[nodiscard]] Fusing fusing() const {
    return fusing_;
  }
  [[nodiscard]] const std::vector<Step>& of_whole() const {
    return of_whole_;
  }

private:
  std::vector<Step> of_texts_;
  Fusing fusing_ = Fusing::as_they_are;
  std::vector<Step> of_whole_;
};

/// The state of one text that grows. Of one thread; the joining must live as long.
class Joiner {
public:
  /// A continuation keeps the space before its first word, which a text is without.
  explicit Joiner(const Joining& joining, Begins begins = Begins::text);

  /// Adds the text of a token. @returns what is certain now: whole characters.
  std::string take(std::string_view token);

  /// Returns the rest, after which there is no more: bytes that did not become a character are U+FFFD.
  std::string finish();

private:
  /// Of a step.
  struct State {
    /// Of ByteFallback: those of the run, how many of them are whole characters, and whether they were given as U+FFFD.
    std::string bytes;
    std::size_t whole = 0;
    bool is_wrong = false;
    /// Of a step of texts: whether it had one. Of the whole text: how often it has removed what it removes.
    std::int64_t count = 0;
  };

  /// Gives a text to a step of texts, or to the fusing after the last of them.
  void give(std::size_t step, std::string text);
  void give_byte(std::size_t step, char byte);
  /// Ends a run of bytes.
  void end_run(std::size_t step);
  void fuse(std::string_view text);

  /// Makes of the next piece of the whole text what comes out.
  std::string change_whole(std::string text);

  const Joining* joining_;
  std::vector<State> of_texts_;
  std::vector<State> of_whole_;
  LossyUtf8 bytes_;
  bool has_text_ = false;
  std::string out_;
};

} // namespace llm::tokenizer
