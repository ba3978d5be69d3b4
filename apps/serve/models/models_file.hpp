// The models file: in JSON what `--model` says of each model, to be read again when it has changed.
#pragma once

#include "model_config.hpp"

#include <gpuactors/base/result.hpp>

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace serve {

/// A models file, and what it is read with.
struct ModelsFile {
  std::filesystem::path path;
  /// What models have that say nothing else.
  ModelConfig defaults;
  /// Models that others name.
  std::set<std::string> taken;

  /// Reads the file: {"models": {"digits": {"file": "digits.safetensors", "replicas": 2, "set": {"unit": "K"}}}}. The
  /// keys are those of `parse_model`, and "file", which is relative to the folder of the models file. "canary" has
  /// those that differ, and its "share" of the requests: {"file": "new.safetensors", "share": 0.1}.
  /// @returns the models in the order of the file; `not_found` without it, else `invalid_argument`, naming the file and
  ///          the place in it, and what would be right.
  [[nodiscard]] gpuactors::Result<std::vector<ModelEntry>> read() const;

  /// The same of a file's text. Pure.
  [[nodiscard]] gpuactors::Result<std::vector<ModelEntry>> parse(std::string_view text) const;
};

/// What is to be done when a models file says something else than before.
struct ModelChanges {
  /// Models that are new, or other ones than before.
  std::vector<ModelEntry> set;
  std::vector<std::string> gone;
};

/// Pure.
[[nodiscard]] ModelChanges changes_between(const std::vector<ModelEntry>& before, const std::vector<ModelEntry>& after);

} // namespace serve
