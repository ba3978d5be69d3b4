// Reductions: combine the values of several members into one.
#pragma once

#include <gpuactors/device/types.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuactors {

/// The numbers are part of the wire format: append only.
enum class Reduction : std::uint8_t {
  /// Integers wrap around. Numbers of 16 bits are rounded after each addition, once for each member but one: use f32
  /// for sums over many members or many steps.
  sum = 1,
  min = 2,
  max = 3,
};

[[nodiscard]] std::string_view to_string(Reduction reduction) noexcept;

/// Returns whether elements of this type can be reduced: all but bytes.
[[nodiscard]] bool is_reducible(DType dtype) noexcept;

/// Combines `count` elements with those at `into`, which is aligned for them; `values` need not be. Any thread. Does
/// nothing for a type that cannot be reduced.
void combine(Reduction reduction, DType dtype, const void* values, void* into, std::size_t count) noexcept;

} // namespace gpuactors
