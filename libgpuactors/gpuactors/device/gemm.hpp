// Gemm and GemmOptions: a matrix product, and how `Stream::gemm` combines its operands.
#pragma once

#include <gpuactors/device/types.hpp>

#include <cstdint>
#include <optional>

namespace gpuactors {

/// Row-major matrix product C = alpha * op(A) * op(B) + beta * C, where op(X) is X or its transpose. A is m x k (k x m
/// if transposed), B is k x n (n x k if transposed), C is m x n; leading dimensions are the number of elements between
/// the starts of two rows.
///
/// A and B are of `dtype`, C is of `result`: both f32 or both f64; or f16 or bf16, with a C of the same type or of f32.
/// Products of 16-bit elements sum and scale in f32 and round once, to C. With a beta of 0, C is only written; with an
/// alpha of 0, host devices do not read A and B.
struct Gemm {
  DType dtype = DType::f32;
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double alpha = 1.0;
  const void* a = nullptr;
  std::int64_t lda = 0;
  const void* b = nullptr;
  std::int64_t ldb = 0;
  double beta = 0.0;
  void* c = nullptr;
  std::int64_t ldc = 0;
  /// Empty: `dtype`.
  std::optional<DType> result = {};

  [[nodiscard]] DType result_type() const noexcept {
    return result.value_or(dtype);
  }
};

/// How `Stream::gemm` combines its operands.
struct GemmOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1.0;
  double beta = 0.0;
};

} // namespace gpuactors
