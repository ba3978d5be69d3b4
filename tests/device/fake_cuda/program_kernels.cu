// Of the program itself, which shows nobody what it has.
#include <device/fake_cuda/library_kernels.hpp>

namespace gpuactors::fake {

GPUACTORS_DEFINE_KERNEL(program_store, Store)
GPUACTORS_DEFINE_KERNEL(program_store_too, Store)

} // namespace gpuactors::fake
