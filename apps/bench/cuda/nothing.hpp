// The kernel that does nothing.
#pragma once

#include <gpuactors/device/kernel.hpp>

#include <cstdint>

namespace gpuactors::bench {

struct Nothing {
  GPUACTORS_FUNCTION void operator()(std::uint64_t) const {
    // nop
  }
};

GPUACTORS_DECLARE_KERNEL(bench_nothing, Nothing);

} // namespace gpuactors::bench
