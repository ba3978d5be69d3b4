// T14, T15: a kernel that the user wrote, and a product whose transfers are counted apart.
#include "kernels/square_plus.hpp"
#include "programs.hpp"
#include "reference.hpp"

#include <algorithm>
#include <cmath>

namespace tour {

using gpuactors::Cluster;
using gpuactors::fail;
using gpuactors::Future;
using gpuactors::Result;
using gpuactors::TaskContext;

namespace {

/// Brings an array to the device, has `compute` make the result of it there, and brings that back, each timed.
template <class Compute>
Result<ComputeReply> run_timed(TaskContext& ctx, const ArrayRequest& in, Compute compute) {
  const SpanTimer span;
  auto& stream = ctx.gpu().stream();
  GPUACTORS_LET(shared, ctx.tensors().get(in.x()));
  GPUACTORS_LET(values, shared.template to_host<float>());
  ComputeReply reply;

  const Stopwatch upload;
  GPUACTORS_LET(x, stream.tensor_from(values, shared.shape()));
  GPUACTORS_LET(y, stream.tensor(x.dtype(), x.shape()));
  GPUACTORS_TRY(stream.synchronize());
  reply.set_upload_seconds(upload.seconds());

  const Stopwatch computation;
  GPUACTORS_TRY(compute(stream, x, y));
  GPUACTORS_TRY(stream.synchronize());
  reply.set_compute_seconds(computation.seconds());

  const Stopwatch download;
  GPUACTORS_LET(result, stream.template to_host<float>(y));
  reply.set_download_seconds(download.seconds());

  GPUACTORS_LET(kept, Cluster::from(ctx).put(result, y.shape()));
  *reply.mutable_result() = std::move(kept).hand_over();
  *reply.mutable_span() = span.end();
  *reply.mutable_place() = place_of(ctx);
  return reply;
}

GPUACTORS_TASK("elementwise", [](TaskContext& ctx, const ArrayRequest& in) {
  return run_timed(ctx, in, [](gpuactors::Stream& stream, const gpuactors::Tensor& x, gpuactors::Tensor& y) {
    return stream.launch(square_plus, static_cast<std::uint64_t>(x.size()), x, y);
  });
});

GPUACTORS_TASK("gram", [](TaskContext& ctx, const ArrayRequest& in) {
  return run_timed(ctx, in, [](gpuactors::Stream& stream, const gpuactors::Tensor& x, gpuactors::Tensor& y) {
    return stream.gemm(x, x, y, {.transpose_b = true});
  });
});

/// Runs `task` on `values` with a whole device and fills `row`. @returns what it made of them.
Result<std::vector<float>> run_task(Tour& tour, Row& row, const char* task, const std::vector<float>& values,
                                    std::vector<std::int64_t> shape) {
  GPUACTORS_LET(cluster, open(tour.machine().all()));
  GPUACTORS_LET(x, cluster.put(values, std::move(shape)));
  ArrayRequest request;
  *request.mutable_x() = x.ref();
  GPUACTORS_LET(reply, cluster.submit<ComputeReply>(task, std::move(request), {.gpus = 1}).get());
  row.device = to_string(reply.place());
  row.seconds = reply.compute_seconds();
  row.result = fmt::format("to device {:.4f} s, compute {:.4f} s, back {:.4f} s", reply.upload_seconds(),
                           reply.compute_seconds(), reply.download_seconds());
  GPUACTORS_LET(result, cluster.get(reply.result()));
  return result.to_host<float>();
}

} // namespace

namespace {

/// The kernel of T14 as a program would send it that has no compiler.
constexpr auto square_plus_source = R"(
extern "C" __global__ void square_plus(const float* x, float* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = x[i] * x[i] + 2.0f * x[i] + 1.0f;
}
)";

/// Has the source of the kernel compiled and run on the device, and fills `row`. @returns what it made of `values`.
Result<std::vector<float>> run_source(Tour& tour, Row& row, const std::vector<float>& values) {
  constexpr unsigned threads = 256;
  const auto count = static_cast<unsigned>(values.size());
  const auto shape = static_cast<std::int64_t>(count);
  GPUACTORS_LET(cluster, open(tour.machine().all()));
  GPUACTORS_LET(x, cluster.put(values, {shape}));
  gpuactors::SourceTask task{{square_plus_source, "square_plus"},
                             {{(count + threads - 1) / threads, 1, 1}, {threads, 1, 1}, 0}};
  task.in(x.ref()).out(gpuactors::DType::f32, {shape}).scalar(count);
  auto future = cluster.submit<gpuactors::v1::SourceResult>(
      task.type, task.message(), {.gpus = 1, .accelerator_type = tour.machine().cuda_type()});
  GPUACTORS_LET(reply, future.get());
  row.device = fmt::format("{} {}, share {}", reply.kind(), reply.device(), reply.share());
  row.seconds = reply.compute_seconds();
  row.result =
      fmt::format("compile {:.4f} s, to device {:.4f} s, compute {:.4f} s, back {:.4f} s", reply.compile_seconds(),
                  reply.upload_seconds(), reply.compute_seconds(), reply.download_seconds());
  GPUACTORS_LET(result, cluster.get(reply.outputs(0).ref()));
  return result.to_host<float>();
}

void check_polynomial(Row& row, const std::vector<float>& x, const std::vector<float>& y) {
  if (!row.check(y.size() == x.size(), "{} elements were expected, {} came", x.size(), y.size()))
    return;
  // Near x = -1 the terms cancel, so the error is relative to their size: three roundings of 2^-24 each.
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto v = static_cast<double>(x[i]);
    const auto error = std::abs(static_cast<double>(y[i]) - (v * v + 2 * v + 1)) / (v * v + 2 * std::abs(v) + 1);
    if (!(error <= worst))
      worst = error;
  }
  row.check_error(worst, 2e-7);
}

} // namespace

Result<void> run_t14(Tour& tour) {
  constexpr std::size_t count = 1'000'000;
  const auto x = random_values(count, 14, -4, 4);
  {
    auto& row = tour.row("x*x + 2x + 1 of 1000000 float32");
    GPUACTORS_LET(y, run_task(tour, row, "elementwise", x, {static_cast<std::int64_t>(count)}));
    check_polynomial(row, x, y);
  }
  if (!tour.machine().has_cuda())
    return {};
  auto& row = tour.row("the same, sent as source");
  auto y = run_source(tour, row, x);
  if (!y && y.error().code() == gpuactors::Errc::unsupported) {
    row.result = "not run: " + y.error().message();
    return {};
  }
  if (!y)
    return fail(y.error());
  check_polynomial(row, x, *y);
  return {};
}

Result<void> run_t15(Tour& tour) {
  constexpr std::size_t n = 1000;
  auto& row = tour.row("gram matrix 1000 x 1000");
  const auto x = random_values(n * n, 15);
  GPUACTORS_LET(y, run_task(tour, row, "gram", x, {static_cast<std::int64_t>(n), static_cast<std::int64_t>(n)}));
  if (!row.check(y.size() == n * n, "{0} x {0} elements were expected, {1} came", n, y.size()))
    return {};
  const auto rows = sampled_rows(n);
  row.check_error(relative_error(take_rows(y, n, rows), reference_product(x, x, n, rows, true)), 1e-5);
  return {};
}

} // namespace tour
