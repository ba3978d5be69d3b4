// What settings of a model and parameters of a request say. Pure.
#pragma once

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <apps/llm/kernels.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace llm {

/// What `set=KEY=VALUE` says of the model.
struct Settings {
  std::filesystem::path folder;
  /// Positions of a text, at most.
  std::int64_t context = 4096;
  /// Tokens of a step, at most.
  std::int64_t step_tokens = 256;
  /// Whether texts share what was computed of beginnings that they have in common.
  bool share_beginnings = true;
  /// Whether requests and answers are texts.
  bool texts = false;
};

/// @returns `invalid_argument`, naming what is missing, unknown or out of its range.
gpuactors::Result<Settings> read_settings(const gpuactors::v1::ReplicaConfig& config);

/// What a request says beside its tokens or its text.
struct Wishes {
  /// Left out: 128, and of conversations as many as there is room for.
  std::optional<std::int64_t> max_tokens;
  Choice choice{0, 1, 0, 0, 0, 0};
  bool ignores_end = false;
  // Of texts.
  /// Texts that end the answer; none is empty.
  std::vector<std::string> stops;
  /// The text is a JSON object with a conversation.
  bool is_chat = false;
};

/// @param of_texts whether those parameters are known that are for texts.
/// @param seed of a request that has none.
/// @returns `invalid_argument`, naming a parameter that is unknown or out of its range, and what would be right.
gpuactors::Result<Wishes> read_wishes(const gpuactors::v1::GenerateRequest& request, bool of_texts, std::uint64_t seed);

} // namespace llm
