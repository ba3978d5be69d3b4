// Defines the kernels of layers.hpp, for host devices and, when nvcc compiles it, for CUDA.
#include <gpuactors/kernels/layers.hpp>

namespace gpuactors::kernels {

GPUACTORS_DEFINE_TYPED_KERNEL(gather_rows, GatherRows)
GPUACTORS_DEFINE_TYPED_KERNEL(bias_rows, BiasRows)
GPUACTORS_DEFINE_TYPED_KERNEL(bias_relu, BiasRelu)
GPUACTORS_DEFINE_TYPED_KERNEL(bias_tanh, BiasTanh)
GPUACTORS_DEFINE_TYPED_KERNEL(bias_gradient, BiasGradient)
GPUACTORS_DEFINE_TYPED_KERNEL(bias_relu_backward, BiasReluBackward)
GPUACTORS_DEFINE_TYPED_KERNEL(bias_tanh_backward, BiasTanhBackward)

} // namespace gpuactors::kernels
