// Defines the kernels of optimizer.hpp, for host devices and, when nvcc compiles it, for CUDA.
#include <gpuactors/kernels/optimizer.hpp>

namespace gpuactors::kernels {

GPUACTORS_DEFINE_TYPED_KERNEL(sgd_update, SgdUpdate)
GPUACTORS_DEFINE_TYPED_KERNEL(momentum_update, MomentumUpdate)
GPUACTORS_DEFINE_TYPED_KERNEL(adam_update, AdamUpdate)

} // namespace gpuactors::kernels
