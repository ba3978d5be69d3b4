// What settings of a model and parameters of a request say. Pure.
#pragma once

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <apps/llm/kernels.hpp>

#include <cstdint>
#include <filesystem>

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
};

/// @returns `invalid_argument`, naming what is missing, unknown or out of its range.
gpuactors::Result<Settings> read_settings(const gpuactors::v1::ReplicaConfig& config);

/// What a request says beside its tokens.
struct Wishes {
  std::int64_t max_tokens = 128;
  Choice choice{0, 1, 0, 0, 0, 0};
  bool ignores_end = false;
};

/// @param seed of a request that has none.
/// @returns `invalid_argument`, naming a parameter that is unknown or out of its range, and what would be right.
gpuactors::Result<Wishes> read_wishes(const gpuactors::v1::GenerateRequest& request, std::uint64_t seed);

} // namespace llm
