// The built-in tasks that compute on a device and compare with float64: matmul, elementwise, gram.
#include "reference.hpp"
#include "support.hpp"

#include <gpuactors/kernels/elementwise.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace gpuactors::builtin {

namespace {

// Rows of a product that are compared: at this size the reference costs about as much as the product itself.
constexpr std::int64_t checked_rows = 8;

constexpr std::int32_t most_returned_rows = 16;
constexpr std::int32_t most_repeats = 1000;

/// Returns a row of a matrix with `columns` columns.
template <class T>
std::span<const T> row_of(const std::vector<T>& matrix, std::size_t columns, std::int64_t row) {
  return std::span{matrix}.subspan(static_cast<std::size_t>(row) * columns, columns);
}

Result<void> check_range(std::string_view field, std::int32_t value, std::int32_t most) {
  if (value < 0 || value > most)
    return fail(Errc::invalid_argument, fmt::format("{} is {}: 0 to {} are expected", field, value, most));
  return {};
}

// -- matmul ---------------------------------------------------------------------------------------

/// The matrices and the times of one product.
template <class T>
struct MatmulRun {
  std::vector<T> a;
  std::vector<T> b;
  std::vector<T> c;
  double seconds = 0;
  double transfer_seconds = 0;
};

/// Multiplies `repeat` times. Device memory comes first: the quota refuses what is too large before the host allocates.
template <class T>
Result<MatmulRun<T>> multiply(TaskContext& ctx, std::int64_t n, const v1::Matmul& in) {
  auto& stream = ctx.gpu().stream();
  GPUACTORS_LET(a, stream.tensor(dtype_of<T>, {n, n}));
  GPUACTORS_LET(b, stream.tensor(dtype_of<T>, {n, n}));
  GPUACTORS_LET(c, stream.tensor(dtype_of<T>, {n, n}));
  const auto count = static_cast<std::size_t>(n * n);
  MatmulRun<T> run;
  run.a = reference::random_values<T>(2 * in.seed(), count);
  run.b = reference::random_values<T>(2 * in.seed() + 1, count);

  const Stopwatch to_device;
  GPUACTORS_TRY(stream.upload(a, run.a));
  GPUACTORS_TRY(stream.upload(b, run.b));
  GPUACTORS_TRY(stream.synchronize());
  run.transfer_seconds = to_device.seconds();

  run.seconds = std::numeric_limits<double>::infinity();
  for (std::int32_t i = 0; i < std::max(in.repeat(), 1); ++i) {
    if (ctx.stop_requested())
      return fail(Errc::cancelled, fmt::format("asked to stop after {} products", i));
    const Stopwatch watch;
    GPUACTORS_TRY(stream.gemm(a, b, c));
    GPUACTORS_TRY(stream.synchronize());
    run.seconds = std::min(run.seconds, watch.seconds());
  }

  const Stopwatch to_host;
  GPUACTORS_LET(product, stream.to_host<T>(c));
  run.transfer_seconds += to_host.seconds();
  run.c = std::move(product);
  return run;
}

template <class T>
Result<v1::Product> matmul_as(TaskContext& ctx, const v1::Matmul& in) {
  GPUACTORS_LET(n, check_order(in.n(), sizeof(T)));
  GPUACTORS_TRY(check_device("matmul", ctx.gpu_count()));
  GPUACTORS_LET(run, multiply<T>(ctx, n, in));
  const auto columns = static_cast<std::size_t>(n);
  v1::Product out;
  out.set_n(in.n());
  out.set_dtype(std::string{to_string(dtype_of<T>)});
  out.set_seconds(run.seconds);
  out.set_gflops(2e-9 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / run.seconds);
  out.set_transfer_seconds(run.transfer_seconds);
  out.set_norm(reference::frobenius_norm(std::span<const T>{run.c}));
  reference::ErrorMeter error;
  for (const auto row : reference::sample_rows(n, checked_rows))
    error.add(reference::product_row(std::span<const T>{run.a}, std::span<const T>{run.b}, columns, columns,
                                     static_cast<std::size_t>(row)),
              row_of(run.c, columns, row));
  out.set_relative_error(error.relative());
  for (const auto row : reference::sample_rows(n, in.return_rows())) {
    auto& returned = *out.add_rows();
    returned.set_index(static_cast<std::int32_t>(row));
    for (const auto value : row_of(run.c, columns, row))
      returned.add_values(static_cast<double>(value));
  }
  *out.mutable_device() = describe(ctx.lease(), ctx.gpu());
  return out;
}

Result<v1::Product> matmul(TaskContext& ctx, const v1::Matmul& in) {
  GPUACTORS_TRY(check_range("return_rows", in.return_rows(), most_returned_rows));
  GPUACTORS_TRY(check_range("repeat", in.repeat(), most_repeats));
  if (in.dtype().empty() || in.dtype() == to_string(DType::f32))
    return matmul_as<float>(ctx, in);
  if (in.dtype() == to_string(DType::f64))
    return matmul_as<double>(ctx, in);
  if (in.dtype() == to_string(DType::f16))
    return matmul_as<Float16>(ctx, in);
  if (in.dtype() == to_string(DType::bf16))
    return matmul_as<BFloat16>(ctx, in);
  return fail(Errc::invalid_argument, fmt::format("dtype is \"{}\": f32, f64, f16 or bf16 is expected", in.dtype()));
}

// -- elementwise ----------------------------------------------------------------------------------

Result<v1::ElementwiseResult> elementwise(TaskContext& ctx, const v1::Elementwise& in) {
  GPUACTORS_LET(count, check_count("n", in.n(), sizeof(float)));
  GPUACTORS_TRY(check_device("elementwise", ctx.gpu_count()));
  auto& stream = ctx.gpu().stream();
  GPUACTORS_LET(x, stream.tensor(DType::f32, {in.n()}));
  GPUACTORS_LET(y, stream.tensor(DType::f32, {in.n()}));
  const auto values = reference::random_values<float>(in.seed(), count);

  const Stopwatch to_device;
  GPUACTORS_TRY(stream.upload(x, values));
  GPUACTORS_TRY(stream.synchronize());
  auto transfer = to_device.seconds();

  const Stopwatch watch;
  GPUACTORS_TRY(stream.launch(kernels::polynomial<float>(), count, x, y));
  GPUACTORS_TRY(stream.synchronize());
  const auto seconds = watch.seconds();

  const Stopwatch to_host;
  GPUACTORS_LET(result, stream.to_host<float>(y));
  transfer += to_host.seconds();

  reference::ErrorMeter error;
  for (std::size_t i = 0; i < count; ++i)
    error.add(reference::polynomial(values[i]), result[i]);
  v1::ElementwiseResult out;
  out.set_n(in.n());
  out.set_seconds(seconds);
  out.set_transfer_seconds(transfer);
  out.set_max_error(error.largest());
  *out.mutable_device() = describe(ctx.lease(), ctx.gpu());
  return out;
}

// -- gram -----------------------------------------------------------------------------------------

Result<v1::GramResult> gram(TaskContext& ctx, const v1::Gram& in) {
  GPUACTORS_LET(n, check_order(in.n(), sizeof(float)));
  GPUACTORS_TRY(check_device("gram", ctx.gpu_count()));
  auto& stream = ctx.gpu().stream();
  GPUACTORS_LET(x, stream.tensor(DType::f32, {n, n}));
  GPUACTORS_LET(product, stream.tensor(DType::f32, {n, n}));
  const auto columns = static_cast<std::size_t>(n);
  const auto values = reference::random_values<float>(in.seed(), columns * columns);
  v1::GramResult out;
  out.set_n(in.n());

  const Stopwatch to_device;
  GPUACTORS_TRY(stream.upload(x, values));
  GPUACTORS_TRY(stream.synchronize());
  out.set_to_device_seconds(to_device.seconds());

  const Stopwatch watch;
  GPUACTORS_TRY(stream.gemm(x, x, product, {.transpose_b = true}));
  GPUACTORS_TRY(stream.synchronize());
  out.set_seconds(watch.seconds());

  const Stopwatch to_host;
  GPUACTORS_LET(result, stream.to_host<float>(product));
  out.set_to_host_seconds(to_host.seconds());

  reference::ErrorMeter error;
  for (const auto row : reference::sample_rows(n, checked_rows))
    error.add(reference::gram_row(std::span<const float>{values}, columns, columns, static_cast<std::size_t>(row)),
              row_of(result, columns, row));
  out.set_relative_error(error.relative());
  *out.mutable_device() = describe(ctx.lease(), ctx.gpu());
  return out;
}

GPUACTORS_TASK("matmul", matmul).needs({.gpus = 1});
GPUACTORS_TASK("elementwise", elementwise).needs({.gpus = 1});
GPUACTORS_TASK("gram", gram).needs({.gpus = 1});

} // namespace

} // namespace gpuactors::builtin
