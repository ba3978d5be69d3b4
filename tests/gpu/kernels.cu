// Both halves of the kernels.
#include <gpu/kernels.hpp>

namespace gpuactors::gpu {

GPUACTORS_DEFINE_KERNEL(record_sm, RecordSm)
GPUACTORS_DEFINE_KERNEL(hold, Hold)
GPUACTORS_DEFINE_KERNEL(burn, Burn)
GPUACTORS_DEFINE_KERNEL(timed_burn, TimedBurn)
GPUACTORS_DEFINE_KERNEL(drag, Drag)
GPUACTORS_DEFINE_KERNEL(nothing, Nothing)
GPUACTORS_DEFINE_KERNEL(crash, Crash)
GPUACTORS_DEFINE_KERNEL(misstep, Misstep)
GPUACTORS_DEFINE_KERNEL(refuse, Refuse)
GPUACTORS_DEFINE_KERNEL(trap, Trap)

} // namespace gpuactors::gpu
