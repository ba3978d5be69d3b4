// Matrix products beside bare cuBLAS.
#include <fmt/format.h>
#include <gpu/lab.hpp>

#include <algorithm>
#include <thread>

namespace gpuactors::gpu {

namespace {

/// Three matrices in a context.
struct Matrices {
  Matrices(Context& context, std::int64_t n) : Matrices(context, n, 0.5F, 0.25F) {
    // nop
  }

  template <class T>
  Matrices(Context& context, std::int64_t n, T in_a, T in_b)
    : a(must(context.stream().tensor_from(std::vector<T>(static_cast<std::size_t>(n * n), in_a), {n, n}))),
      b(must(context.stream().tensor_from(std::vector<T>(static_cast<std::size_t>(n * n), in_b), {n, n}))),
      c(must(context.stream().tensor(dtype_of<T>, {n, n}))) {
    must(context.stream().synchronize());
  }

  Tensor a;
  Tensor b;
  Tensor c;
};

double ours(Context& context, Matrices& m, int rounds) {
  const auto once = [&](int count) {
    for (int i = 0; i < count; ++i)
      must(context.stream().gemm(m.a, m.b, m.c));
    must(context.stream().synchronize());
  };
  once(2);
  return milliseconds([&] { once(rounds); }) / rounds;
}

/// A green context over the first groups of a split of its own, for as many SMs as one of ours has. It may overlap with
/// ours: the two never run at once.
struct BareGreen {
  BareGreen(Lab& lab, CUdevice device, int sms) : driver(lab.driver) {
    const auto group = one_group(driver, device, static_cast<unsigned>(sms));
    has = static_cast<int>(group.sm.smCount);
    context = make_green(driver, device, group);
    must(driver.green_ctx_stream_create(&stream, context, CU_STREAM_NON_BLOCKING, 0));
  }
  BareGreen(const BareGreen&) = delete;
  BareGreen& operator=(const BareGreen&) = delete;
  ~BareGreen() {
    (void)driver.stream_destroy(stream);
    (void)driver.green_ctx_destroy(context);
  }

  const cuda::Driver& driver;
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;
  /// The driver may give more than it was asked for.
  int has = 0;
};

/// One product by cuBLAS alone, of f32 or of bf16 with sums in f32, as ours.
void multiply_bare(Lab& lab, cublasHandle_t handle, Matrices& m) {
  const auto n = m.a.shape()[0];
  const float one = 1.0F;
  const float zero = 0.0F;
  if (m.c.dtype() == DType::f32)
    return must(lab.cublas.sgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, m.b.data<float>(), n,
                                 m.a.data<float>(), n, &zero, m.c.data<float>(), n));
  must(lab.cublas.set_math_mode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  must(lab.cublas.gemm_ex(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, m.b.raw(), CUDA_R_16BF, n, m.a.raw(),
                          CUDA_R_16BF, n, &zero, m.c.raw(), CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/// Milliseconds of a product by cuBLAS alone, on a stream.
/// @param sms that cuBLAS is told; 0: none.
double bare(Lab& lab, Context& context, Matrices& m, CUstream stream, int sms, int rounds) {
  auto workspace = must(context.stream().allocate(lab.sized(std::size_t{32} << 20, std::size_t{1} << 20)));
  must(context.stream().synchronize());
  cublasHandle_t handle = nullptr;
  must(lab.cublas.create(&handle));
  must(lab.cublas.set_stream(handle, stream));
  must(lab.cublas.set_workspace(handle, workspace.data(), workspace.bytes()));
  if (sms > 0)
    must(lab.cublas.set_sm_count_target(handle, sms));
  const auto once = [&](int count) {
    for (int i = 0; i < count; ++i)
      multiply_bare(lab, handle, m);
    wait_bare(lab.driver, stream);
  };
  once(2);
  const auto time = milliseconds([&] { once(rounds); }) / rounds;
  (void)lab.cublas.destroy(handle);
  return time;
}

/// The medians of several turns of each, after two that warm the device up: at full power its clock is lower than just
/// after a rest. They are first by turns: the second one finds the device as the first one has left it.
struct Medians {
  double bare = 0;
  double ours = 0;
};

template <class Bare, class Ours>
Medians medians_of(Bare&& take_bare, Ours&& take_ours) {
  constexpr int warm_up = 2;
  constexpr int turns = 9;
  std::vector<double> bare;
  std::vector<double> ours;
  for (int turn = 0; turn < warm_up + turns; ++turn) {
    const bool ours_first = turn % 2 == 1;
    if (ours_first)
      ours.push_back(take_ours());
    bare.push_back(take_bare());
    if (!ours_first)
      ours.push_back(take_ours());
  }
  const auto median = [](std::vector<double>& times) {
    times.erase(times.begin(), times.begin() + warm_up);
    return quantile(times, 0.5);
  };
  return {median(bare), median(ours)};
}

double teraflops(std::int64_t n, double ms) {
  return 2e-9 * static_cast<double>(n * n * n) / ms;
}

/// Judges products on a whole device. @returns the milliseconds of one.
double judge_whole(Lab& lab, const char* row, Context& context, Matrices& matrices, int rounds) {
  CUstream stream = nullptr;
  must(lab.driver.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  const auto [floor, best] = medians_of([&] { return bare(lab, context, matrices, stream, 0, rounds); },
                                        [&] { return ours(context, matrices, rounds); });
  (void)lab.driver.stream_destroy(stream);
  const auto n = matrices.a.shape()[0];
  lab.report.judge(row, best <= floor / 0.99,
                   fmt::format("{0} x {0}: {1:.3f} ms ({2:.1f} TFLOP/s), bare cuBLAS {3:.3f} ms: {4:.3f} of it", n,
                               best, teraflops(n, best), floor, floor / best),
                   "at least 0.99 of bare", {{"n", n}, {"ms", best}, {"bare_ms", floor}});
  return best;
}

} // namespace

void measure_products(Lab& lab) {
  const auto n = lab.sized(std::int64_t{4096}, std::int64_t{64});
  const auto rounds = lab.sized(30, 2);
  // On twice the SMs, for as long. 16-bit products take a twentieth of that. A turn takes long beside the 0.3 ms and
  // more that the driver needs to wake a thread.
  const auto whole_rounds = lab.sized(60, 2);
  const auto narrow_rounds = lab.sized(900, 2);
  const BareContext bare_context{lab};
  double whole = 0;
  {
    const auto context = open(lab, Share::whole(1));
    Matrices matrices{*context, n};
    whole = judge_whole(lab, "product whole", *context, matrices, whole_rounds);
    Matrices narrow{*context, n, BFloat16{0.5F}, BFloat16{0.25F}};
    (void)judge_whole(lab, "product 16-bit", *context, narrow, narrow_rounds);
  }
  const auto half = open(lab, Share{Share::one / 2});
  if (half->granted().compute != ComputeEnforcement::sm_groups)
    return lab.report.skip("product half", to_string(half->granted()));
  const auto sms = half->granted().units;
  Matrices matrices{*half, n};
  Medians medians;
  int bare_sms = 0;
  {
    const BareGreen green{lab, bare_context.device(), sms};
    bare_sms = green.has;
    // cuBLAS may be told how many SMs there are or not, whichever is faster.
    medians = medians_of(
        [&] {
          return std::min(bare(lab, *half, matrices, green.stream, bare_sms, rounds),
                          bare(lab, *half, matrices, green.stream, 0, rounds));
        },
        [&] { return ours(*half, matrices, rounds); });
  }
  // For as many SMs, should the driver have given the bare one more.
  const auto floor = medians.bare * bare_sms / sms;
  const auto time = medians.ours;
  lab.report.judge(
      "product half", time <= floor / 0.95,
      fmt::format("{0} x {0} on {1} SMs: {2:.3f} ms, bare cuBLAS on a green context of {3} SMs {4:.3f} ms: {5:.3f} of "
                  "it for each SM",
                  n, sms, time, bare_sms, medians.bare, floor / time),
      "at least 0.95 of bare", {{"sms", sms}, {"ms", time}, {"bare_sms", bare_sms}, {"bare_ms", medians.bare}});
  const auto other = open(lab, Share{Share::one / 2});
  Matrices theirs{*other, n};
  // cuBLAS is loaded for each context where it is first used in it, which is not what is measured.
  (void)ours(*other, theirs, 1);
  double their_time = 0;
  std::string trouble;
  std::jthread beside{[&] {
    try {
      their_time = ours(*other, theirs, 2 * rounds);
    } catch (const Trouble& what) {
      trouble = what.text;
    }
  }};
  const auto our_time = ours(*half, matrices, 2 * rounds);
  beside.join();
  if (!trouble.empty())
    throw Trouble{trouble};
  const auto both = whole / our_time + whole / their_time;
  lab.report.judge(
      "product halves", both >= 0.95,
      fmt::format("two at once {:.3f} and {:.3f} ms: together {:.3f} of the whole device", our_time, their_time, both),
      "together at least 0.95 of the whole", {{"together", both}});
}

} // namespace gpuactors::gpu
