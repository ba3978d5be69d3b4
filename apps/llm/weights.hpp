// The weights of a decoder on a device, from safetensors files with the names that transformers gives them.
#pragma once

#include <gpuactors/base/fingerprint.hpp>
#include <gpuactors/gpuactors.hpp>

#include <apps/llm/config.hpp>

#include <filesystem>
#include <vector>

namespace llm {

/// Matrices have a row for each of their outputs, as the files have them.
struct Layer {
  gpuactors::Tensor attention_norm;
  /// Queries, keys and values below each other.
  gpuactors::Tensor qkv;
  /// In f32; empty without biases.
  gpuactors::Tensor qkv_bias;
  gpuactors::Tensor attention_out;
  gpuactors::Tensor inner_norm;
  /// Gates and ups below each other.
  gpuactors::Tensor gate_up;
  gpuactors::Tensor down;
};

struct Weights {
  /// f32, f16 or bf16.
  gpuactors::DType dtype = gpuactors::DType::f32;
  gpuactors::Tensor table;
  std::vector<Layer> layers;
  gpuactors::Tensor norm;
  /// Empty where the table takes its place.
  gpuactors::Tensor head;
  /// Of the arrays' names, types and shapes, and of samples of their bytes: to train a model further changes it.
  gpuactors::Fingerprint fingerprint = {};

  [[nodiscard]] const gpuactors::Tensor& last() const {
    return head ? head : table;
  }
};

/// Loads model.safetensors of a folder, or the files that its model.safetensors.index.json names, one after the other.
/// @returns `not_found` when there are none; `invalid_argument`, naming file and array, for what is missing or has
///          another shape or type than the configuration says; `out_of_memory` with the numbers.
gpuactors::Result<Weights> load_weights(gpuactors::Stream& stream, const Config& config,
                                        const std::filesystem::path& folder);

} // namespace llm
