// Defines the kernels of elementwise.hpp, for host devices and, when nvcc compiles it, for CUDA.
#include <gpuactors/kernels/elementwise.hpp>

namespace gpuactors::kernels {

GPUACTORS_DEFINE_FLOAT_KERNEL(fill_value, FillValue)
GPUACTORS_DEFINE_FLOAT_KERNEL(polynomial, Polynomial)
GPUACTORS_DEFINE_FLOAT_KERNEL(axpy, Axpy)
GPUACTORS_DEFINE_FLOAT_KERNEL(scale, Scale)
GPUACTORS_DEFINE_FLOAT_KERNEL(add, Add)

} // namespace gpuactors::kernels
