// T1, T2, T18: one task type, `matmul`, on whole devices, on halves, and on two kinds of device.
#include "programs.hpp"
#include "reference.hpp"

#include <algorithm>
#include <thread>

namespace tour {

using gpuactors::Cluster;
using gpuactors::Future;
using gpuactors::Options;
using gpuactors::Result;
using gpuactors::Shared;
using gpuactors::TaskContext;
using gpuactors::Tensor;

namespace {

// -- the task: what a user writes -----------------------------------------------------------------

Result<ComputeReply> matmul(TaskContext& ctx, const MatmulRequest& in) {
  const SpanTimer span;
  auto& stream = ctx.gpu().stream();
  ComputeReply reply;

  const Stopwatch upload;
  GPUACTORS_LET(shared_a, ctx.tensors().get(in.a()));
  GPUACTORS_LET(shared_b, ctx.tensors().get(in.b()));
  GPUACTORS_LET(a, shared_a.on(stream));
  GPUACTORS_LET(b, shared_b.on(stream));
  GPUACTORS_LET(c, stream.tensor(a.dtype(), {a.shape()[0], b.shape()[1]}));
  reply.set_upload_seconds(upload.seconds());

  const Stopwatch compute;
  GPUACTORS_TRY(stream.gemm(a, b, c));
  GPUACTORS_TRY(stream.synchronize());
  reply.set_compute_seconds(compute.seconds());

  // The task's own memory goes with the task, so the result is put into the program's.
  const Stopwatch download;
  GPUACTORS_LET(result, Cluster::from(ctx).put(c, stream));
  *reply.mutable_result() = std::move(result).hand_over();
  reply.set_download_seconds(download.seconds());
  *reply.mutable_span() = span.end();
  *reply.mutable_place() = place_of(ctx);
  return reply;
}

GPUACTORS_TASK("matmul", matmul);

// -- the programs ---------------------------------------------------------------------------------

// float32 products of float32 inputs: rounding only. A device that computes in TF32 (1e-3) does not pass.
constexpr double tolerance = 1e-5;

/// Two random matrices: on the CPU for the reference, and shared with the tasks.
struct Factors {
  std::size_t n = 0;
  std::vector<float> a;
  std::vector<float> b;
  Shared<Tensor> shared_a;
  Shared<Tensor> shared_b;

  static Result<Factors> make(Cluster& cluster, std::size_t n) {
    Factors factors;
    factors.n = n;
    factors.a = random_values(n * n, n);
    factors.b = random_values(n * n, n + 1);
    const auto side = static_cast<std::int64_t>(n);
    GPUACTORS_LET(a, cluster.put(factors.a, {side, side}));
    GPUACTORS_LET(b, cluster.put(factors.b, {side, side}));
    factors.shared_a = a;
    factors.shared_b = b;
    return factors;
  }

  Future<ComputeReply> submit(Cluster& cluster, const Options& options) const {
    MatmulRequest request;
    *request.mutable_a() = shared_a.ref();
    *request.mutable_b() = shared_b.ref();
    return cluster.submit<ComputeReply>("matmul", std::move(request), options);
  }
};

std::string times(const ComputeReply& reply) {
  return fmt::format("{:.3f} s, {:.3f} s with transfers", reply.compute_seconds(),
                     reply.upload_seconds() + reply.compute_seconds() + reply.download_seconds());
}

/// Fills a row from a product and checks sampled rows of it. @returns the product.
Result<std::vector<float>> check_product(Cluster& cluster, Row& row, const Factors& factors,
                                         const ComputeReply& reply) {
  row.device = to_string(reply.place());
  row.result = times(reply);
  row.seconds = reply.compute_seconds();
  GPUACTORS_LET(shared, cluster.get(reply.result()));
  GPUACTORS_LET(product, shared.to_host<float>());
  if (row.check(product.size() == factors.n * factors.n, "a {0} x {0} matrix was expected, {1} elements came",
                factors.n, product.size())) {
    const auto rows = sampled_rows(factors.n);
    const auto expected = reference_product(factors.a, factors.b, factors.n, rows);
    row.check_error(relative_error(take_rows(product, factors.n, rows), expected), tolerance);
  }
  return std::move(product);
}

std::vector<std::size_t> sizes(const Tour& tour, bool large) {
  std::vector<std::size_t> result{1000, 2000, 3000};
  if (large && tour.full())
    result.insert(result.end(), {4000, 5000});
  return result;
}

/// The whole product in float64 by plain loops on all cores; the rows of each thread are its own.
std::vector<double> whole_reference(const Factors& factors) {
  const std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::vector<double>> parts(workers);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < workers; ++i)
    threads.emplace_back([&, i] {
      std::vector<std::size_t> rows;
      for (auto row = i * factors.n / workers; row < (i + 1) * factors.n / workers; ++row)
        rows.push_back(row);
      parts[i] = reference_product(factors.a, factors.b, factors.n, rows);
    });
  for (auto& thread : threads)
    thread.join();
  std::vector<double> product;
  for (const auto& part : parts)
    product.insert(product.end(), part.begin(), part.end());
  return product;
}

/// The second half of T18 where there is CUDA: the same on the CPU as a node of its own, products compared.
Result<void> compare_kinds(Tour& tour) {
  gpuactors::EmbedOptions options;
  options.nodes = {{.name = "gpu", .devices = tour.machine().all(), .labels = {}, .resources = {}},
                   {.name = "cpu", .devices = "host:1", .labels = {}, .resources = {}}};
  GPUACTORS_LET(cluster, Cluster::embed(std::move(options)));
  GPUACTORS_LET(factors, Factors::make(cluster, 2000));
  std::vector<std::vector<float>> products;
  for (const auto* node : {"gpu", "cpu"}) {
    auto& row = tour.row(fmt::format("matmul 2000 on node {}", node));
    GPUACTORS_LET(reply, factors.submit(cluster, {.gpus = 1, .node = node}).get());
    row.check(reply.place().node() == node, "node {} was expected, {} came", node, reply.place().node());
    GPUACTORS_LET(product, check_product(cluster, row, factors, reply));
    products.push_back(std::move(product));
  }
  const std::vector<double> gpu(products[0].begin(), products[0].end());
  tour.last_row().check_error(relative_error(products[1], gpu), tolerance);
  return {};
}

} // namespace

Result<void> run_t1(Tour& tour) {
  GPUACTORS_LET(cluster, open(tour.machine().all()));
  for (const auto n : sizes(tour, true)) {
    auto& row = tour.row(fmt::format("matmul {}", n));
    GPUACTORS_LET(factors, Factors::make(cluster, n));
    GPUACTORS_LET(reply, factors.submit(cluster, {.gpus = 1}).get());
    row.check(reply.place().share() == 1, "a share of 1 was expected, {} came", reply.place().share());
    GPUACTORS_TRY(check_product(cluster, row, factors, reply));
  }
  return {};
}

Result<void> run_t2(Tour& tour) {
  GPUACTORS_LET(one, open_one(tour));
  auto& cluster = one.cluster;
  std::vector<Factors> all;
  for (const auto n : sizes(tour, false)) {
    GPUACTORS_LET(factors, Factors::make(cluster, n));
    all.push_back(std::move(factors));
  }
  // Each size twice, so that both halves have work for a while.
  std::vector<Future<ComputeReply>> futures;
  for (int round = 0; round < 2; ++round)
    for (const auto& factors : all)
      futures.push_back(factors.submit(cluster, one.here({.gpus = 0.5})));
  std::vector<Span> spans;
  for (std::size_t i = 0; i < futures.size(); ++i) {
    GPUACTORS_LET(reply, futures[i].get());
    spans.push_back(reply.span());
    auto& row = tour.row(fmt::format("matmul {}, round {}", all[i % all.size()].n, i / all.size() + 1));
    row.check(reply.place().share() == 0.5, "a share of 0.5 was expected, {} came", reply.place().share());
    GPUACTORS_TRY(check_product(cluster, row, all[i % all.size()], reply));
  }
  auto& row = tour.row("two in flight at once");
  row.device = "one device, share 0.5 each";
  const auto together = most_at_once(spans);
  row.result = fmt::format("{} at one instant", together);
  row.check(together == 2, "two tasks at one instant were expected, {} came", together);
  GPUACTORS_LET(usage, usage_of(cluster));
  row.check(usage.most_units == gpuactors::Share::one, "1 of the device in use at one instant was expected, {} came",
            gpuactors::to_string(gpuactors::Share{usage.most_units}));
  return {};
}

Result<void> run_t18(Tour& tour) {
  if (tour.machine().has_cuda())
    return compare_kinds(tour);
  GPUACTORS_LET(cluster, open(tour.machine().all()));
  GPUACTORS_LET(factors, Factors::make(cluster, 2000));
  auto& row = tour.row("matmul 2000, and float64 loops");
  GPUACTORS_LET(reply, factors.submit(cluster, {.gpus = 1}).get());
  GPUACTORS_LET(product, check_product(cluster, row, factors, reply));
  const Stopwatch watch;
  const auto expected = whole_reference(factors);
  row.result = fmt::format("{:.3f} s, float64 loops on the CPU {:.3f} s", reply.compute_seconds(), watch.seconds());
  row.check_error(relative_error(product, expected), tolerance);
  return {};
}

} // namespace tour
