// What the folder of a model says of texts: its tokenizer, and how a conversation is one text.
#pragma once

#include <gpuactors/base/fingerprint.hpp>
#include <gpuactors/base/result.hpp>

#include <apps/llm/chat/template.hpp>
#include <apps/llm/tokenizer/tokenizer.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// Tokens that are put before and behind those of a text.
struct Ends {
  std::vector<std::int32_t> begin;
  std::vector<std::int32_t> end;
};

/// Tokens of texts and of conversations, and back. Any thread.
class Language {
public:
  /// Reads tokenizer.json, and if they are there tokenizer_config.json and chat_template.jinja, as transformers write
  /// them. Without a template, or with one that cannot be rendered here, there are no conversations, and those who ask
  /// for one are told why.
  /// @param vocabulary  the model's: the tokenizer must not have more.
  /// @returns `not_found` without a tokenizer.json, and the errors of `read_tokenizer`.
  static gpuactors::Result<Language> load(const std::filesystem::path& folder, std::int64_t vocabulary,
                                          gpuactors::Fingerprint& fingerprint);

  [[nodiscard]] const Tokenizer& tokenizer() const noexcept {
    return tokenizer_;
  }

  /// Returns the tokens of a text that the model goes on with, with those that the files put around texts.
  /// @returns the errors of `Tokenizer::encode`; `unsupported` where the files do not agree about that.
  [[nodiscard]] gpuactors::Result<std::vector<std::int32_t>> tokens_of(std::string_view text) const;

  /// Returns the tokens of a conversation, up to where the model's answer begins: a JSON object with "messages" and, as
  /// the template takes them, "tools" and "chat_template_kwargs". Contents that are lists of texts are one text.
  /// @param now  The local time, for templates that tell the date.
  /// @returns `invalid_argument` for what is no conversation, or one that the template refuses; `unsupported` where
  ///          there is no template, and for contents other than texts.
  [[nodiscard]] gpuactors::Result<std::vector<std::int32_t>> tokens_of_chat(std::string_view document,
                                                                            std::chrono::local_seconds now) const;

private:
  Language(Tokenizer tokenizer, nlohmann::ordered_json specials, gpuactors::Result<std::optional<Ends>> ends)
    : tokenizer_(std::move(tokenizer)), specials_(std::move(specials)), ends_(std::move(ends)) {
    // nop
  }

  Tokenizer tokenizer_;
  /// What templates see of special tokens: "bos_token" and others.
  nlohmann::ordered_json specials_;
  /// What the configuration puts around texts in the place of tokenizer.json; nothing if it does not.
  gpuactors::Result<std::optional<Ends>> ends_;
  std::optional<ChatTemplate> chat_;
  /// Where there is no template.
  gpuactors::Error without_chat_{gpuactors::Errc::unsupported, "the model's folder has no chat template"};
};

} // namespace llm
