// What a decoder is: read from the config.json that Hugging Face's transformers write beside the weights.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace llm {

/// A decoder of the Llama family (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023), as are
/// Llama 1 to 3, Mistral, Qwen 2 and others: its layers have RMS norms, rotated queries and keys, and SiLU gates.
struct Config {
  std::int64_t vocabulary = 0;
  /// Numbers that stand for a token between layers.
  std::int64_t width = 0;
  /// The same inside the second half of a layer.
  std::int64_t inner_width = 0;
  std::int64_t layers = 0;
  std::int64_t query_heads = 0;
  std::int64_t key_heads = 0;
  /// Numbers of a head.
  std::int64_t head_size = 0;
  /// Positions that it was trained for; of one that looks back at fewer (a sliding window), that many.
  std::int64_t positions = 0;
  float norm_epsilon = 0;
  /// Whether queries, keys and values have biases (Qwen 2).
  bool has_bias = false;
  /// Whether the last product has the table of the first step as its weights.
  bool is_tied = false;
  /// Tokens that end a text.
  std::vector<std::int32_t> ends;
  /// By how much each pair of a head is rotated for each position.
  std::vector<float> frequencies;

  /// Returns the numbers of the queries of a token, and of its keys.
  [[nodiscard]] std::int64_t query_width() const {
    return query_heads * head_size;
  }
  [[nodiscard]] std::int64_t key_width() const {
    return key_heads * head_size;
  }
};

/// Reads a configuration.
/// @returns `invalid_argument`, naming the entry, for what is missing or makes no sense; `unsupported` for decoders
/// that
///          compute otherwise: other types, activations, rotations, quantized weights.
gpuactors::Result<Config> read_config(std::string_view json);

/// Adds the tokens that end texts from a generation_config.json, which may have more of them.
/// @returns `invalid_argument` for a file that is none.
gpuactors::Result<void> add_ends(Config& config, std::string_view json);

} // namespace llm
