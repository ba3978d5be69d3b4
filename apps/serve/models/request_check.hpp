// Whether a request fits the model that it asks for.
#pragma once

#include "model_facts.hpp"

#include <cstdint>
#include <string_view>

namespace serve {

/// Checks names, types, shapes and sizes. Pure.
/// @returns the rows of the request; `invalid_argument`, saying what the model takes.
gpuactors::Result<std::uint64_t> check_request(const InferRequest& request, const ModelFacts& facts,
                                               std::uint64_t max_batch);

/// The input of that name; null if there is none. Pure.
[[nodiscard]] const NamedTensor* find_input(const InferRequest& request, std::string_view name);

} // namespace serve
