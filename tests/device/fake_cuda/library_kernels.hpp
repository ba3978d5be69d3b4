// Kernels of a shared library, and one of the test program itself.
#pragma once

#include <gpuactors/device/kernel.hpp>

namespace gpuactors::fake {

struct Store {
  GPUACTORS_FUNCTION void operator()(std::uint64_t, int value, int* out) const {
    *out = value;
  }
};

GPUACTORS_DECLARE_KERNEL(library_store, Store);
GPUACTORS_DECLARE_KERNEL(library_store_too, Store);
GPUACTORS_DECLARE_KERNEL(program_store, Store);
GPUACTORS_DECLARE_KERNEL(program_store_too, Store);

} // namespace gpuactors::fake
