// A kernel of the user's own: y = x * x + 2x + 1, element by element.
#pragma once

#include <gpuactors/device/kernel.hpp>

#include <cstdint>

namespace tour {

struct SquarePlus {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const float* x, float* y) const {
    y[i] = x[i] * x[i] + 2.0F * x[i] + 1.0F;
  }
};

GPUACTORS_DECLARE_KERNEL(square_plus, SquarePlus);

} // namespace tour
