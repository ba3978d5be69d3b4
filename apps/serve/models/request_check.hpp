// Whether a request fits the model that it asks for.
#pragma once

#include "model_facts.hpp"

#include <cstdint>
#include <string_view>

namespace serve {

/// Checks names, types, shapes and sizes, and that it fits into one batch. Pure.
/// @returns the rows of the request; `invalid_argument`, saying what the model takes.
gpuactors::Result<std::uint64_t> check_request(const InferRequest& request, const ModelFacts& facts,
                                               std::uint64_t max_batch);

/// Bytes that a checked request has in a batch, where rows do not say how many.
[[nodiscard]] std::uint64_t batch_bytes(const InferRequest& request, const ModelFacts& facts);

/// Checks a request to a generative model: names, types, shapes and sizes, and that it fits into one message. Pure.
/// @returns `invalid_argument`, saying what the model takes.
gpuactors::Result<void> check_generation(const InferRequest& request, const ModelFacts& facts);

/// The input of that name; null if there is none. Pure.
[[nodiscard]] const NamedTensor* find_input(const InferRequest& request, std::string_view name);

} // namespace serve
