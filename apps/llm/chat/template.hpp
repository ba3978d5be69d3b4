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
#include <string_view>
#include <utility>

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
/// and {% generation %}. What it renders is what Jinja renders, byte for byte; what it does not know it refuses. It
/// knows what such templates use:
/// - {% if %}, {% for %} with `if`, `else`, {% break %} and {% continue %}, {% set %} of values, attributes of
///   namespaces and blocks, {% macro %}; comments; the variable `loop`;
/// - all operators but **, and but % on texts; slices; `a if b else c`;
/// - the functions range, dict, namespace, raise_exception, strftime_now;
/// - the filters abs, capitalize, count, d, default, dictsort, first, float, indent, int, items, join, last, length,
///   list, lower, map, max, min, reject, rejectattr, replace, reverse, select, selectattr, sort, string, sum, title,
///   tojson, trim, unique, upper, and safe at the end of {{ }};
/// - the tests boolean, defined, divisibleby, eq, equalto, even, false, float, ge, greaterthan, gt, in, integer,
///   iterable, le, lessthan, lt, mapping, ne, none, number, odd, sequence, string, true, undefined;
/// - the methods get, items, keys, values of dicts; capitalize, endswith, find, join, lower, lstrip, removeprefix,
///   removesuffix, replace, rfind, rsplit, rstrip, split, splitlines, startswith, strip, title, upper of texts.
///
/// Any thread; several may render with the same one.
class ChatTemplate {
public:
  /// Templates are no longer.
  static constexpr std::size_t most_bytes = std::size_t{256} << 10U;

  /// Reads a template.
  /// @returns `unsupported`, naming the line, for what is no template, and for one with a tag, a filter, a test, a
  ///          method or a function that is unknown here; `invalid_argument` for one that is too long or not UTF-8.
  static gpuactors::Result<ChatTemplate> parse(std::string_view text);

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
