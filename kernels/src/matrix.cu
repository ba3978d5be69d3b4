// Defines the kernels of matrix.hpp, for host devices and, when nvcc compiles it, for CUDA.
#include <gpuactors/kernels/matrix.hpp>

namespace gpuactors::kernels {

GPUACTORS_DEFINE_TYPED_KERNEL(transpose, Transpose)
GPUACTORS_DEFINE_TYPED_KERNEL(column_sums, ColumnSums)
GPUACTORS_DEFINE_TYPED_KERNEL(add_to_rows, AddToRows)
GPUACTORS_DEFINE_TYPED_KERNEL(sum_chunks, SumChunks)

} // namespace gpuactors::kernels
