// Shows this program's kernels to the CUDA driver for tests.
#include "device.hpp"

#include <gpuactors/kernels/layers.hpp>
#include <gpuactors/kernels/matrix.hpp>

#include <apps/llm/kernels.hpp>

#include <device/fake_cuda/show_kernels.hpp>

#include <vector>

namespace llm::test {

namespace {

using gpuactors::fake::FakeKernel;

const FakeKernel* find(const char* entry) {
  using gpuactors::fake::fake_kernel;
  static const std::vector<FakeKernel> all{
      fake_kernel(embed_tokens_f32),
      fake_kernel(embed_tokens_f16),
      fake_kernel(embed_tokens_bf16),
      fake_kernel(rms_norm_f32),
      fake_kernel(rms_norm_f16),
      fake_kernel(rms_norm_bf16),
      fake_kernel(rotate_and_keep_f32),
      fake_kernel(rotate_and_keep_f16),
      fake_kernel(rotate_and_keep_bf16),
      fake_kernel(attend_f32),
      fake_kernel(attend_f16),
      fake_kernel(attend_bf16),
      fake_kernel(silu_times_f32),
      fake_kernel(silu_times_f16),
      fake_kernel(silu_times_bf16),
      fake_kernel(choose_tokens),
      fake_kernel(gpuactors::kernels::gather_rows_f32),
      fake_kernel(gpuactors::kernels::add_to_rows_f32),
  };
  for (const auto& kernel : all)
    if (kernel.entry == entry)
      return &kernel;
  return nullptr;
}

} // namespace

void show_kernels_to_fake_driver() {
  gpuactors::fake::show_kernels(&find);
}

} // namespace llm::test
