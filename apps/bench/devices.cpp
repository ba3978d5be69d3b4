// Work on a device through a task, beside the same work by the bare library.
#include "openblas.hpp"
#include "rows.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <cblas.h>
#include <fmt/format.h>

#include <cstdlib>
#include <random>
#include <thread>

namespace gpuactors::bench {

namespace {

std::vector<float> random_matrix(std::int64_t n, unsigned seed) {
  std::mt19937 random{seed};
  std::uniform_real_distribution<float> uniform{-1.0F, 1.0F};
  std::vector<float> values(static_cast<std::size_t>(n * n));
  for (auto& value : values)
    value = uniform(random);
  return values;
}

/// Multiplies two n x n matrices `repeat` times; answers with the seconds of the fastest product.
Result<Square> multiply(TaskContext& ctx, const Square& in) {
  auto& stream = ctx.gpu().stream();
  const auto n = in.n();
  GPUACTORS_LET(a, stream.tensor_from(random_matrix(n, 1), {n, n}));
  GPUACTORS_LET(b, stream.tensor_from(random_matrix(n, 2), {n, n}));
  GPUACTORS_LET(c, stream.tensor(DType::f32, {n, n}));
  Square reply = in;
  double best = 1e30;
  for (int i = 0; i < in.repeat(); ++i) {
    const auto start = now_ns();
    GPUACTORS_TRY(stream.gemm(a, b, c));
    GPUACTORS_TRY(stream.synchronize());
    best = std::min(best, now_ns() - start);
  }
  reply.set_seconds(best * 1e-9);
  return reply;
}

GPUACTORS_TASK("bench.multiply", multiply);

constexpr std::int64_t size = 2'000;
constexpr int products = 3;

double ours(Cluster& cluster) {
  Square square;
  square.set_n(size);
  square.set_repeat(products);
  auto reply = cluster.submit<Square>("bench.multiply", square, {.gpus = 1}).get();
  if (!reply) {
    fmt::print(stderr, "gpuactors-bench: {}\n", to_string(reply.error()));
    std::exit(1);
  }
  return 2e-9 * size * size * size / reply->seconds();
}

double bare(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) {
  // The library itself keeps OpenBLAS at one thread and shares out the tiles; the floor uses OpenBLAS's own threads.
  const auto set_num_threads = openblas<decltype(openblas_set_num_threads)>("openblas_set_num_threads");
  const auto sgemm = openblas<decltype(cblas_sgemm)>("cblas_sgemm");
  set_num_threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  double best = 1e30;
  for (int i = 0; i < products; ++i) {
    const auto start = now_ns();
    const auto n = static_cast<blasint>(size);
    sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0F, a.data(), n, b.data(), n, 0.0F, c.data(), n);
    best = std::min(best, now_ns() - start);
  }
  set_num_threads(1);
  return 2.0 * size * size * size / best;
}

} // namespace

std::vector<Benchmark> device_benchmarks() {
  return {{"matmul_2000_host", [](int repeat) {
             auto cluster = Cluster::embed({.devices = "host:1x1GiB"});
             const auto a = random_matrix(size, 1);
             const auto b = random_matrix(size, 2);
             std::vector<float> c(a.size());
             auto row = measure(
                 "matmul_2000_host", "GFLOP/s", repeat, [&] { return ours(*cluster); }, [&] { return bare(a, b, c); });
             row.bound = 0.95;
             row.at_most = false;
             return row;
           }}};
}

} // namespace gpuactors::bench
