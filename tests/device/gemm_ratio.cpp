// Not a test: the speed of matrix products on the host device beside bare OpenBLAS with as many threads.
//   gemm_ratio [n] [threads] [rounds]
#include <gpuactors/device/context.hpp>
#include <gpuactors/device/host/device.hpp>

#include <cblas.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

using namespace gpuactors;

namespace {

template <class F>
double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const auto n = argument(1, 2000);
  const auto threads = argument(2, 2);
  const auto rounds = argument(3, 15);
  DeviceInfo info;
  info.units = threads;
  info.memory_bytes = std::uint64_t{2} << 30;
  auto device = std::make_shared<host::HostDevice>(info);
  auto context = Context::open(device, {});
  if (!context) {
    fmt::print(stderr, "{}\n", to_string(context.error()));
    return 1;
  }
  auto& stream = (*context)->stream();
  const std::vector<float> values(static_cast<std::size_t>(n) * static_cast<std::size_t>(n), 0.5F);
  auto a = stream.tensor_from(values, {n, n});
  auto b = stream.tensor_from(values, {n, n});
  auto c = stream.tensor_from(values, {n, n});
  if (!a || !b || !c)
    return 1;
  const auto bare = [&] {
    openblas_set_num_threads(threads);
    const auto time = seconds([&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0F, a->data<float>(), n, b->data<float>(), n,
                  0.0F, c->data<float>(), n);
    });
    openblas_set_num_threads(1);
    return time;
  };
  const auto ours = [&] {
    return seconds([&] {
      if (!stream.gemm(*a, *b, *c) || !stream.synchronize())
        std::abort();
    });
  };
  bare();
  ours();
  std::vector<double> bare_times;
  std::vector<double> our_times;
  // Turn about, so that both meet the same noise.
  for (int i = 0; i < rounds; ++i) {
    bare_times.push_back(bare());
    our_times.push_back(ours());
  }
  std::sort(bare_times.begin(), bare_times.end());
  std::sort(our_times.begin(), our_times.end());
  const auto middle = static_cast<std::size_t>(rounds) / 2;
  fmt::print(
      "n={} threads={} rounds={}: bare OpenBLAS best {:.1f} ms median {:.1f} ms, host device best {:.1f} ms median "
      "{:.1f} ms, ratio best {:.3f} median {:.3f}\n",
      n, threads, rounds, bare_times[0] * 1e3, bare_times[middle] * 1e3, our_times[0] * 1e3, our_times[middle] * 1e3,
      bare_times[0] / our_times[0], bare_times[middle] / our_times[middle]);
}
