// Checks shapes of tensors. Internal to the device layer.
#pragma once

#include <gpuactors/device/types.hpp>

#include <string>
#include <vector>

namespace gpuactors::detail {

/// Renders "[2, 3]".
std::string format_shape(const std::vector<std::int64_t>& shape);

/// Returns the size of a tensor in bytes. Pure.
/// @returns `invalid_argument` with the problem in the type or shape.
Result<std::size_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape);

} // namespace gpuactors::detail
