// What every measurement works with: the device through our layer, and the bare driver beside it.
#pragma once

#include <gpuactors/device/context.hpp>
#include <gpuactors/device/cuda/cublas.hpp>
#include <gpuactors/device/cuda/driver.hpp>

#include <gpu/report.hpp>
#include <gpu/show_kernels.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace gpuactors::gpu {

struct Lab {
  std::shared_ptr<Device> device;
  cuda::Driver driver;
  cuda::Cublas cublas;
  Report report;
  /// Small sizes, and nothing that needs a real chip: to see that the program itself works.
  bool smoke = false;
  /// Of the first open of the device in this process, and why it failed.
  double first_open_ms = 0;
  std::string first_open_trouble = {};

  /// A size, or a much smaller one.
  template <class T>
  T sized(T full, T small) const {
    return smoke ? small : full;
  }
};

/// Ends the measurement, not the program: a row that could not be taken is a failed row.
struct Trouble {
  std::string text;
};

/// The value, or `Trouble` with the error's text.
template <class T>
T must(Result<T> result) {
  if (!result)
    throw Trouble{result.error().message()};
  return std::move(*result);
}

inline void must(Result<void> result) {
  if (!result)
    throw Trouble{result.error().message()};
}

inline void must(CUresult result) {
  if (result != CUDA_SUCCESS)
    throw Trouble{"the bare driver call failed with " + std::to_string(static_cast<int>(result))};
}

inline void must(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Trouble{"the bare cuBLAS call failed with " + std::to_string(static_cast<int>(status))};
}

inline constexpr auto much_memory = std::uint64_t{1} << 30;

inline std::unique_ptr<Context> open(Lab& lab, Share share, std::uint64_t bytes = much_memory) {
  return must(Context::open(lab.device, {share, lab.sized(bytes, std::uint64_t{64} << 20), "verify", nullptr}));
}

using Sms = std::set<std::uint32_t>;

/// Which SMs wrote these numbers of theirs (kernel `record_sm`).
inline Sms recorded_sms(Context& context, const Tensor& where) {
  Sms result;
  for (const auto sm : must(context.stream().to_host<std::int32_t>(where)))
    result.insert(static_cast<std::uint32_t>(sm));
  return result;
}

/// Milliseconds that `f` takes.
template <class F>
double milliseconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

inline constexpr std::size_t mib = std::size_t{1} << 20;

/// GB/s of the best of a few that move so many bytes.
template <class F>
double best_rate(std::size_t bytes, F&& f) {
  double best = 0;
  for (int i = 0; i < 6; ++i)
    best = std::max(best, static_cast<double>(bytes) / 1e6 / std::max(1e-6, milliseconds(f)));
  return best;
}

/// The same of two that are compared, after a warm-up by turns: so that what changes with time changes both.
template <class F, class G>
std::pair<double, double> best_rates(std::size_t bytes, F&& f, G&& g) {
  f();
  g();
  std::pair<double, double> best{0, 0};
  const auto rate = [bytes](auto&& move) {
    return static_cast<double>(bytes) / 1e6 / std::max(1e-6, milliseconds(move));
  };
  for (int i = 0; i < 6; ++i) {
    best.first = std::max(best.first, rate(f));
    best.second = std::max(best.second, rate(g));
  }
  return best;
}

/// Of the device, all processes counted.
std::uint64_t free_bytes(Lab& lab);

/// The value below which `part` of all lie.
double quantile(std::vector<double> values, double part);

/// The primary context, current for the life of this object: where bare calls run.
class BareContext {
public:
  explicit BareContext(Lab& lab);
  BareContext(const BareContext&) = delete;
  BareContext& operator=(const BareContext&) = delete;
  ~BareContext();

  [[nodiscard]] CUdevice device() const noexcept {
    return device_;
  }

private:
  const cuda::Driver& driver_;
  CUdevice device_ = 0;
};

/// The kernel that does nothing, loaded by the bare driver; throws `Trouble` without nvcc. With a `BareContext`.
struct BareKernel {
  explicit BareKernel(Lab& lab);

  /// One launch of one block.
  void launch(const cuda::Driver& driver, CUstream stream) const;

  CUlibrary library = nullptr;
  CUfunction function = nullptr;
};

/// The first group of a split of its own, of so many SMs; 1: as few as the device makes. It may overlap with groups of
/// ours.
CUdevResource one_group(const cuda::Driver& driver, CUdevice device, unsigned sms = 1);

/// A green context over it, which the caller ends.
CUgreenCtx make_green(const cuda::Driver& driver, CUdevice device, CUdevResource group);

/// Waits in the fastest way, which keeps a processor busy: in cuStreamSynchronize the thread sleeps.
inline void wait_bare(const cuda::Driver& driver, CUstream stream) {
  while (driver.stream_query(stream) == CUDA_ERROR_NOT_READY) {
    // nop
  }
  must(driver.stream_synchronize(stream));
}

// Each takes its measurements and adds its rows.
void check_groups(Lab& lab);
void check_events(Lab& lab);
void check_sm_ids(Lab& lab);
void check_confinement(Lab& lab);
void check_ending(Lab& lab);
void measure_fractions(Lab& lab);
void measure_neighbour(Lab& lab);
void check_quota(Lab& lab);
void measure_copies(Lab& lab);
void measure_products(Lab& lab);
void measure_costs(Lab& lab);
void measure_launches(Lab& lab);
void check_notices(Lab& lab);
void measure_fetch(Lab& lab);
void check_source(Lab& lab);
void check_lending(Lab& lab);
void check_relatives(Lab& lab);
void check_sharing(Lab& lab);
void measure_peers(Lab& lab);
void check_graphs(Lab& lab);
void check_captures(Lab& lab);
void check_rounding(Lab& lab);
void check_leavings(Lab& lab);
void measure_overhead(Lab& lab);
void check_launch_limits(Lab& lab);
void check_unloading(Lab& lab);
void check_first_launches(Lab& lab);
void check_waits(Lab& lab);
void check_pinning(Lab& lab);
void check_driver_waits(Lab& lab);
void check_faults(Lab& lab);
void check_management(Lab& lab);

/// What a child process does; its exit code.
int run_child(const std::string& what);

/// Lends so many bytes to the process at the other end of standard input, until that is gone. @returns the exit code.
int lend(std::size_t bytes);

/// The device that is tested: the first that is visible.
Result<std::shared_ptr<Device>> find_device();

} // namespace gpuactors::gpu
