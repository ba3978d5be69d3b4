// Defines the kernels of convert.hpp, for host devices and, when nvcc compiles it, for CUDA.
#include <gpuactors/kernels/convert.hpp>

namespace gpuactors::kernels {

GPUACTORS_DEFINE_KERNEL(convert_f32_to_f16, ConvertF32ToF16)
GPUACTORS_DEFINE_KERNEL(convert_f16_to_f32, ConvertF16ToF32)
GPUACTORS_DEFINE_KERNEL(convert_f32_to_bf16, ConvertF32ToBf16)
GPUACTORS_DEFINE_KERNEL(convert_bf16_to_f32, ConvertBf16ToF32)

} // namespace gpuactors::kernels
