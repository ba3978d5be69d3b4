// Shows the kernels to the fake CUDA driver, if that is the one that was loaded: so the program is tested without a
// GPU.
#include <device/fake_cuda/show_kernels.hpp>
#include <gpu/kernels.hpp>
#include <gpu/show_kernels.hpp>

#include <vector>

namespace gpuactors::gpu {

namespace {

const fake::FakeKernel* find(const char* entry) {
  using fake::fake_kernel;
  static const std::vector<fake::FakeKernel> all{fake_kernel(record_sm), fake_kernel(hold),       fake_kernel(burn),
                                                 fake_kernel(drag),      fake_kernel(timed_burn), fake_kernel(nothing),
                                                 fake_kernel(crash)};
  for (const auto& kernel : all)
    if (kernel.entry == entry)
      return &kernel;
  return nullptr;
}

} // namespace

void show_kernels_to_fake_driver() {
  fake::show_kernels(&find);
}

} // namespace gpuactors::gpu
