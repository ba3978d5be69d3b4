// Chat templates: what makes the text of a prompt of the messages of a conversation.
#pragma once

#include <gpuactors/base/result.hpp>

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace llm {

namespace chat {
struct Program;
}

/// Of one rendering.
struct RenderOptions {
  /// The local time that `strftime_now` tells. Without it, a template that asks for the time is an error.
  std::optional<std::chrono::local_seconds> now;
  /// Bytes of the text, at most.
  std::size_t output_bytes = std::size_t{16} << 20U;
  /// Bytes of all values that are made in between, the variables among them, at most.
  std::uint64_t made_bytes = std::uint64_t{256} << 20U;
  /// Expressions, tags and runs of loops, and what takes as long, at most.
  std::uint64_t steps = 20'000'000;
};

/// The `chat_template` of a tokenizer_config.json, which is a template of Jinja, as transformers render it: in an
/// immutable sandbox, with trim_blocks and lstrip_blocks, and with their `tojson`, `raise_exception`, `strftime_now`
/// and {% generation %}. It knows what such templates use; docs/guide/language-models.md has a list. What it renders is
/// what Jinja renders, byte for byte. Any thread; several may render with the same one.
class ChatTemplate {
public:
  /// Templates are no longer.
  static constexpr std::size_t most_bytes = std::size_t{1} << 20U;

  /// Reads a template.
  /// @returns `unsupported`, naming the line, for what is no template, and for one with a tag, a filter, a test, a
  ///          method or a function that is unknown here; `invalid_argument` for one that is too long or not UTF-8.
  static gpuactors::Result<ChatTemplate> parse(std::string text);

  /// Renders it with variables: an object, with `messages`, `add_generation_prompt`, `bos_token` and others.
  /// `ordered_json` keeps the order of keys, which `tojson` shows; `json` sorts them.
  /// @returns `invalid_argument` with the text that the template gives to raise_exception; `invalid_argument`, naming
  ///          the line, for what is an error in Jinja too, and for what exceeds the limits; `unsupported`, naming the
  ///          line, for what Jinja may render and this library does not, such as whole numbers of more than 64 bits.
  [[nodiscard]] gpuactors::Result<std::string> render(const nlohmann::ordered_json& variables,
                                                      const RenderOptions& options = {}) const;
  [[nodiscard]] gpuactors::Result<std::string> render(const nlohmann::json& variables,
                                                      const RenderOptions& options = {}) const;

private:
  explicit ChatTemplate(std::shared_ptr<const chat::Program> program) : program_(std::move(program)) {
    // nop
  }

  std::shared_ptr<const chat::Program> program_;
};

} // namespace llm
