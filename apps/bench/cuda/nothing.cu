// Both halves of the kernel.
#include "nothing.hpp"

namespace gpuactors::bench {

GPUACTORS_DEFINE_KERNEL(bench_nothing, Nothing)

} // namespace gpuactors::bench
