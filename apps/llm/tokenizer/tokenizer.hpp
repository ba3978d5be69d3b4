// From text to tokens and back, as a tokenizer.json says that Hugging Face's library "tokenizers" writes beside models.
// Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <apps/llm/tokenizer/begins.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

namespace tokenizer {
struct Parts;
class Joiner;
} // namespace tokenizer

/// The tokenizer of a model: those of Llama, Mistral, Qwen and others that merge pairs (BPE). It gives the tokens that
/// Hugging Face's tokenizers 0.23 gives, or refuses the file: what it would do otherwise is not known to it. (But for
/// characters that are newer than this machine's ICU: these are letters to the one and unassigned to the other.)
///
/// A value that is cheap to copy; copies are the same one. Any thread may use one at the same time as others.
class Tokenizer {
public:
  /// Returns the tokens of a text.
  /// @param text valid UTF-8 of at most 4 MiB; it may have NUL. Special tokens in it are found: who does not trust a
  ///             text looks for them before.
  /// @param adds_special whether those tokens come with it that the file puts around texts: the one that begins texts.
  /// @returns `invalid_argument` with the position of a byte that is no UTF-8, for longer texts, and for those in which
  ///          a regular expression of the file would look for seconds.
  [[nodiscard]] gpuactors::Result<std::vector<std::int32_t>> encode(std::string_view text, bool adds_special) const;

  /// Returns the text of tokens without the special ones; see TextOfTokens.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;

  /// Returns the token that is written so, special or not: "</s>", "<|im_end|>".
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view token) const;

  /// Returns how a token is written: its bytes may be written as other characters, spaces too. Nothing if there is no
  /// such token. It lives as long as a copy of this.
  [[nodiscard]] std::optional<std::string_view> text_of(std::int32_t token) const;

  /// Whether there is such a token that texts are decoded without.
  [[nodiscard]] bool is_special(std::int32_t token) const;

  /// Returns the first number above all tokens: the model's vocabulary must be at least as large.
  [[nodiscard]] std::int32_t end() const;

  /// Returns how many tokens there are: up to `end()`, some numbers may be of none.
  [[nodiscard]] std::int64_t size() const;

private:
  friend class TextOfTokens;
  friend gpuactors::Result<Tokenizer> read_tokenizer(std::string_view json);
  explicit Tokenizer(std::shared_ptr<const tokenizer::Parts> parts);

  std::shared_ptr<const tokenizer::Parts> parts_;
};

/// Reads a tokenizer.json.
/// @returns `invalid_argument`, naming the entry, for what is missing or makes no sense, and for more than 128 MiB;
///          `unsupported` for what would be computed otherwise: models other than BPE, other types or entries of
///          normalizers, pre-tokenizers, post-processors and decoders, regular expressions that ICU takes differently
///          than Oniguruma (tokenizer/regex_syntax.hpp), truncation and padding.
gpuactors::Result<Tokenizer> read_tokenizer(std::string_view json);

/// The text of tokens that come one by one: what is certain by now, never a part of a character. All of it together is
/// what Hugging Face's tokenizers 0.23 decodes the tokens to, without special tokens. (It keeps special tokens that are
/// `normalized` if normalizers change them, by mistake: here they are left out too.)
///
/// Of bytes as tokens (Llama 2) a whole run is held back until another token comes, because one that is wrong makes
/// U+FFFD of all of them. Of one thread.
class TextOfTokens {
public:
  /// @param begins whether the tokens go on with another text: then a space before their first word is one of the text.
  explicit TextOfTokens(const Tokenizer& tokenizer, tokenizer::Begins begins = tokenizer::Begins::text);
  TextOfTokens(TextOfTokens&& other) noexcept;
  TextOfTokens& operator=(TextOfTokens&& other) noexcept;
  ~TextOfTokens();

  /// Adds a token. @returns the text that has become certain; nothing for a special token, or a number of none.
  std::string take(std::int32_t token);

  /// Returns the rest: bytes that did not become a character are U+FFFD. The next token begins a new text.
  std::string finish();

private:
  std::shared_ptr<const tokenizer::Parts> parts_;
  std::unique_ptr<tokenizer::Joiner> joiner_;
};

} // namespace llm
