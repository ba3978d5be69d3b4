// The kernel, for host devices and for CUDA.
#include "triple.hpp"

GPUACTORS_DEFINE_KERNEL(triple, Triple)
