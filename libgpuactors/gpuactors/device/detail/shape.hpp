// Shapes of tensors, checked. Internal to the device layer.
#pragma once

#include <gpuactors/device/types.hpp>

#include <string>
#include <vector>

namespace gpuactors::detail {

/// Renders "[2, 3]".
std::string format_shape(const std::vector<std::int64_t>& shape);

/// Bytes of a tensor, or `invalid_argument` saying what is wrong with its type or shape. Pure.
Result<std::size_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape);

} // namespace gpuactors::detail
