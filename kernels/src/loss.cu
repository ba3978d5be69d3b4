// Defines the kernels of loss.hpp, for host devices and, when nvcc compiles it, for CUDA.
#include <gpuactors/kernels/loss.hpp>

namespace gpuactors::kernels {

GPUACTORS_DEFINE_TYPED_KERNEL(softmax_cross_entropy, SoftmaxCrossEntropy)
GPUACTORS_DEFINE_TYPED_KERNEL(squared_error_rows, SquaredErrorRows)

} // namespace gpuactors::kernels
