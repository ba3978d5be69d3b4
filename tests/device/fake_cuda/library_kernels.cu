// Of a shared library: who opens a device finds them.
#include <device/fake_cuda/library_kernels.hpp>

namespace gpuactors::fake {

GPUACTORS_DEFINE_KERNEL(library_store, Store)
GPUACTORS_DEFINE_KERNEL(library_store_too, Store)

} // namespace gpuactors::fake
