// A kernel of the user's own: every element times three.
#pragma once

#include <gpuactors/device/kernel.hpp>

#include <cstdint>

struct Triple {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, float* x) const {
    x[i] *= 3.0F;
  }
};

GPUACTORS_DECLARE_KERNEL(triple, Triple);
