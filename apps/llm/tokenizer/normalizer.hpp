// What is changed in a text before it is split. Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <apps/llm/tokenizer/pattern.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <variant>
#include <vector>

namespace llm::tokenizer {

/// Unicode's normal forms. As Hugging Face's library has tables of Unicode 9, characters of later versions stay.
enum class Form : std::uint8_t { nfc, nfd, nfkc, nfkd };

struct Lowercase {};

struct Strip {
  bool left = false;
  bool right = false;
};

struct Prepend {
  std::string text;
};

struct Replace {
  Pattern pattern;
  std::string text;
};

/// Any thread may normalize with it at the same time as others.
class Normalizer {
public:
  /// Reads the entry `normalizer` of a file.
  /// @returns `unsupported` for types other than NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip and Sequence.
  static gpuactors::Result<Normalizer> read(const nlohmann::json& file);

  [[nodiscard]] bool is_empty() const {
    return steps_.empty();
  }

  /// @returns `invalid_argument` for more than 1024 combining marks on one character, for what becomes too long or
  /// takes
  ///          too long, or what a search returns;
  ///          `unsupported` if the expression of a Replace finds nothing somewhere (an empty match).
  gpuactors::Result<std::string> normalize(std::string text, Budget& budget) const;

private:
  using Step = std::variant<Form, Lowercase, Strip, Prepend, Replace>;

  std::vector<Step> steps_;
};

} // namespace llm::tokenizer
