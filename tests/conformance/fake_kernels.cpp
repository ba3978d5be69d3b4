// Shows this program's kernels to the fake CUDA driver, if that is the driver that was loaded.
#include <gpuactors/kernels/activation.hpp>
#include <gpuactors/kernels/convert.hpp>
#include <gpuactors/kernels/elementwise.hpp>
#include <gpuactors/kernels/layers.hpp>
#include <gpuactors/kernels/loss.hpp>
#include <gpuactors/kernels/matrix.hpp>
#include <gpuactors/kernels/optimizer.hpp>
#include <gpuactors/kernels/training.hpp>

#include <conformance/block_probes.hpp>
#include <conformance/candidates.hpp>
#include <conformance/probe_kernels.hpp>
#include <device/fake_cuda/show_kernels.hpp>

namespace gpuactors::conformance {

namespace {

const fake::FakeKernel* find(const char* entry) {
  using fake::fake_kernel;
  using namespace kernels;
  static const std::vector<fake::FakeKernel> all{
      fake_kernel(visit_all),
      fake_kernel(block_sums),
      fake_kernel(subtract_first),
      fake_kernel(narrow_sums),
      fake_kernel(reverse_rows),
      fake_kernel(find_best),
      fake_kernel(take_shared),
      fake_kernel(add_pairs),
      fake_kernel(grid_scale),
      fake_kernel(await_gate),
      fake_kernel(open_gate),
      fake_kernel(mix),
      fake_kernel(many_arguments),
      fake_kernel(no_arguments),
      fake_kernel(fill_value_f32),
      fake_kernel(fill_value_f64),
      fake_kernel(fill_value_f16),
      fake_kernel(fill_value_bf16),
      fake_kernel(polynomial_f32),
      fake_kernel(polynomial_f64),
      fake_kernel(polynomial_f16),
      fake_kernel(polynomial_bf16),
      fake_kernel(axpy_f32),
      fake_kernel(axpy_f64),
      fake_kernel(axpy_f16),
      fake_kernel(axpy_bf16),
      fake_kernel(scale_f32),
      fake_kernel(scale_f64),
      fake_kernel(scale_f16),
      fake_kernel(scale_bf16),
      fake_kernel(add_f32),
      fake_kernel(add_f64),
      fake_kernel(add_f16),
      fake_kernel(add_bf16),
      fake_kernel(convert_f32_to_f16),
      fake_kernel(convert_f16_to_f32),
      fake_kernel(convert_f32_to_bf16),
      fake_kernel(convert_bf16_to_f32),
      fake_kernel(relu_f32),
      fake_kernel(relu_f64),
      fake_kernel(relu_backward_f32),
      fake_kernel(relu_backward_f64),
      fake_kernel(tanh_forward_f32),
      fake_kernel(tanh_forward_f64),
      fake_kernel(tanh_backward_f32),
      fake_kernel(tanh_backward_f64),
      fake_kernel(transpose_f32),
      fake_kernel(transpose_f64),
      fake_kernel(column_sums_f32),
      fake_kernel(column_sums_f64),
      fake_kernel(add_to_rows_f32),
      fake_kernel(add_to_rows_f64),
      fake_kernel(sum_chunks_f32),
      fake_kernel(sum_chunks_f64),
      fake_kernel(squared_error_f32),
      fake_kernel(squared_error_f64),
      fake_kernel(mse_gradient_f32),
      fake_kernel(mse_gradient_f64),
      fake_kernel(sgd_step_f32),
      fake_kernel(sgd_step_f64),
      fake_kernel(adam_step_f32),
      fake_kernel(adam_step_f64),
      fake_kernel(gather_rows_f32),
      fake_kernel(gather_rows_f64),
      fake_kernel(bias_rows_f32),
      fake_kernel(bias_rows_f64),
      fake_kernel(bias_relu_f32),
      fake_kernel(bias_relu_f64),
      fake_kernel(bias_tanh_f32),
      fake_kernel(bias_tanh_f64),
      fake_kernel(bias_gradient_f32),
      fake_kernel(bias_gradient_f64),
      fake_kernel(bias_relu_backward_f32),
      fake_kernel(bias_relu_backward_f64),
      fake_kernel(bias_tanh_backward_f32),
      fake_kernel(bias_tanh_backward_f64),
      fake_kernel(softmax_cross_entropy_f32),
      fake_kernel(softmax_cross_entropy_f64),
      fake_kernel(squared_error_rows_f32),
      fake_kernel(squared_error_rows_f64),
      fake_kernel(sgd_update_f32),
      fake_kernel(sgd_update_f64),
      fake_kernel(momentum_update_f32),
      fake_kernel(momentum_update_f64),
      fake_kernel(adam_update_f32),
      fake_kernel(adam_update_f64),
  };
  for (const auto& kernel : all)
    if (kernel.entry == entry)
      return &kernel;
  return nullptr;
}

} // namespace

void show_kernels_to_fake_driver() {
  fake::show_kernels(&find);
}

} // namespace gpuactors::conformance
