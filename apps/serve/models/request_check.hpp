// Whether a request fits the model that it asks for.
#pragma once

#include "pending.hpp"

#include <cstdint>

namespace serve {

/// Checks names, types, shapes and sizes. Pure.
/// @returns the rows of the request; `invalid_argument`, saying what the model takes.
gpuactors::Result<std::uint64_t> check_request(const InferRequest& request, const ModelFacts& facts,
                                               std::uint64_t max_batch);

/// The name of a type as the protocol writes it: "FP32".
[[nodiscard]] const char* type_name(DataType type) noexcept;

} // namespace serve
