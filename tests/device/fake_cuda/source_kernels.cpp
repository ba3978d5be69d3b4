// Kernels of other processes than the test's own, as the chip would run them: mostly those that are sent as source.
#include <device/fake_cuda/driver.hpp>

#include <cstring>

namespace gpuactors::fake {

namespace {

/// An argument of a launch: the driver of the tests passes a word of each.
template <class T>
T argument(const void* pack, std::size_t index) {
  T value{};
  std::memcpy(&value, static_cast<const std::uint64_t*>(pack) + index, sizeof(T));
  return value;
}

/// square_plus(const float* x, float* y, unsigned n): y = x * x + 2 x + 1
void square_plus(std::uint64_t, std::uint64_t, const void* pack) {
  const auto* x = argument<const float*>(pack, 0);
  auto* y = argument<float*>(pack, 1);
  for (std::uint32_t i = 0; i < argument<std::uint32_t>(pack, 2); ++i)
    y[i] = x[i] * x[i] + 2.0F * x[i] + 1.0F;
}

/// add_to(double* x, double by, long long n): x += by
void add_to(std::uint64_t, std::uint64_t, const void* pack) {
  auto* x = argument<double*>(pack, 0);
  for (std::int64_t i = 0; i < argument<std::int64_t>(pack, 2); ++i)
    x[i] += argument<double>(pack, 1);
}

/// overflow(long long* x): what no double holds
void overflow(std::uint64_t, std::uint64_t, const void* pack) {
  *argument<std::int64_t*>(pack, 0) = (std::int64_t{1} << 53) + 1;
}

/// The kernel that gpuactors-tour has compiled, as its source says it.
struct TourSquarePlus {
  void operator()(std::uint64_t i, const float* x, float* y) const {
    y[i] = x[i] * x[i] + 2.0F * x[i] + 1.0F;
  }
};
using TourPack = KernelOf<TourSquarePlus>::Pack;

/// The kernel of gpuactors-bench that does nothing.
struct BenchNothing {
  void operator()(std::uint64_t) const {
    // nop
  }
};

} // namespace

const FakeKernel* find_source_kernel(std::string_view entry) {
  static const FakeKernel all[] = {
      {"square_plus", &square_plus, 3 * sizeof(std::uint64_t), {8, 8, 4}},
      {"add_to", &add_to, 3 * sizeof(std::uint64_t), {8, 8, 8}},
      {"overflow", &overflow, sizeof(std::uint64_t), {8}},
      {"gpuactors_kernel_square_plus", &gpuactors::detail::run_on_host<TourSquarePlus>, sizeof(TourPack)},
      {"gpuactors_kernel_bench_nothing", &gpuactors::detail::run_on_host<BenchNothing>, sizeof(KernelPack<>)},
  };
  for (const auto& kernel : all)
    if (kernel.entry == entry)
      return &kernel;
  return nullptr;
}

} // namespace gpuactors::fake
