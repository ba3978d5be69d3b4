// The tokens that are put around those of a text (post-processors). Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace llm::tokenizer {

/// What a text becomes with special tokens: most often one that begins texts, and the text.
class Template {
public:
  /// Reads the entry `post_processor` of a file.
  /// @returns `unsupported` for types other than TemplateProcessing (one at most), ByteLevel and Sequence.
  static gpuactors::Result<Template> read(const nlohmann::json& file);

  /// @param adds_special whether the special tokens come with them.
  [[nodiscard]] std::vector<std::int32_t> apply(std::vector<std::int32_t> tokens, bool adds_special) const;

  /// The special tokens that it has.
  [[nodiscard]] std::vector<std::int32_t> special() const;

private:
  static constexpr std::int32_t text = -1;

  /// Tokens, and `text` in the place of the text.
  std::vector<std::int32_t> pieces_{text};
};

} // namespace llm::tokenizer
