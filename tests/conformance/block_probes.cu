// Both halves of the block kernels and grid kernels.
#include <conformance/block_probes.hpp>

namespace gpuactors::conformance {

GPUACTORS_DEFINE_BLOCK_KERNEL(visit_all, VisitAll)
GPUACTORS_DEFINE_BLOCK_KERNEL(block_sums, BlockSums)
GPUACTORS_DEFINE_BLOCK_KERNEL(subtract_first, SubtractFirst)
GPUACTORS_DEFINE_BLOCK_KERNEL(narrow_sums, NarrowSums)
GPUACTORS_DEFINE_BLOCK_KERNEL(reverse_rows, ReverseRows)
GPUACTORS_DEFINE_BLOCK_KERNEL(find_best, FindBest)
GPUACTORS_DEFINE_BLOCK_KERNEL(take_shared, TakeShared)

#ifdef __CUDACC__
/// Each lane loads one number, and pairs of lanes exchange theirs.
__device__ void add_pairs_on_device(const float* x, float* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const float own = i < 2 * n ? x[i] : 0.0F;
  const float sum = own + __shfl_xor_sync(0xffffffffU, own, 1);
  if (i < 2 * n && i % 2 == 0)
    y[i / 2] = sum;
}

template <unsigned threads>
__device__ void scale_on_device(float* x, float by, unsigned n) {
  __shared__ float factor[threads];
  factor[threadIdx.x] = by;
  __syncthreads();
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i < n)
    x[i] *= factor[threads - 1 - threadIdx.x];
}
#endif

namespace {

[[maybe_unused]] void add_pairs_on_host(const float* x, float* y, unsigned n) {
  for (unsigned i = 0; i < n; ++i)
    y[i] = x[2 * i] + x[2 * i + 1];
}

} // namespace

GPUACTORS_DEFINE_GRID_KERNEL(add_pairs, add_pairs_on_device, add_pairs_on_host, __launch_bounds__(256))
GPUACTORS_DEFINE_GRID_KERNEL(grid_scale, scale_on_device<64>, nullptr)

} // namespace gpuactors::conformance
