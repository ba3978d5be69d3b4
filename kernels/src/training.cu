// Defines the kernels of training.hpp, for host devices and, when nvcc compiles it, for CUDA.
#include <gpuactors/kernels/training.hpp>

namespace gpuactors::kernels {

GPUACTORS_DEFINE_TYPED_KERNEL(squared_error, SquaredError)
GPUACTORS_DEFINE_TYPED_KERNEL(mse_gradient, MseGradient)
GPUACTORS_DEFINE_TYPED_KERNEL(sgd_step, SgdStep)
GPUACTORS_DEFINE_TYPED_KERNEL(adam_step, AdamStep)

} // namespace gpuactors::kernels
