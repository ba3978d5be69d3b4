// The kernel for both kinds of device: gpuactors_add_kernels() compiles this file for host devices and for CUDA.
#include "kernels/square_plus.hpp"

namespace tour {

GPUACTORS_DEFINE_KERNEL(square_plus, SquarePlus)

} // namespace tour
