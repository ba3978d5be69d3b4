// Defines the kernels of activation.hpp, for host devices and, when nvcc compiles it, for CUDA.
#include <gpuactors/kernels/activation.hpp>

namespace gpuactors::kernels {

GPUACTORS_DEFINE_TYPED_KERNEL(relu, Relu)
GPUACTORS_DEFINE_TYPED_KERNEL(relu_backward, ReluBackward)
GPUACTORS_DEFINE_TYPED_KERNEL(tanh_forward, Tanh)
GPUACTORS_DEFINE_TYPED_KERNEL(tanh_backward, TanhBackward)

} // namespace gpuactors::kernels
