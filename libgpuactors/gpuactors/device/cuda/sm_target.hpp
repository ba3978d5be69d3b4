// For how many SMs cuBLAS is told to choose a product's kernel.
#pragma once

#include <gpuactors/device/backend.hpp>

#include <algorithm>

namespace gpuactors::cuda {

/// The target for a product on a stream of `sms` SMs; 0 for either: the whole device.
///
/// cuBLAS chooses for the whole device unless it is told, and a kernel runs on its stream's SMs whatever was chosen. To
/// tell it is not always better. On an H200 (cuBLAS 13.0, 16 to 68 SMs, docs/design/0049) products of 16 bits gain up
/// to 2.3 times, but lose up to 1.9 times where the number is no multiple of 8; of 32 bits those with few rows or
/// columns gain up to 1.7 times, while large ones lose up to a fifth. Those of 64 bits were not measured. Pure.
[[nodiscard]] inline int sm_target(const Gemm& product, int sms) noexcept {
  constexpr int multiple = 8;
  constexpr std::int64_t few = 32;
  const auto least = std::min(product.m, product.n);
  const bool narrow = product.dtype == DType::f16 || product.dtype == DType::bf16;
  const bool flat = product.dtype == DType::f32 && least > 1 && least <= few;
  return narrow || flat ? sms - sms % multiple : 0;
}

} // namespace gpuactors::cuda
