// How a thread waits for a device, and for how many SMs a product's kernel is chosen, without one.
#include <gpuactors/device/cuda/sm_target.hpp>
#include <gpuactors/device/detail/patience.hpp>

#include <support/catch.hpp>

#include <sys/prctl.h>

using namespace gpuactors;
using namespace std::chrono_literals;
using detail::pause_after;

TEST_CASE("who waits looks at once while it is short, then late by a part of what was waited, then is woken") {
  CHECK(pause_after(0ns) == Duration{0});
  CHECK(pause_after(49us) == Duration{0});
  CHECK(pause_after(64us) == Duration{2us});
  CHECK(pause_after(1ms) == Duration{31'250ns});
  CHECK(pause_after(10ms) == Duration{100us});
  CHECK(pause_after(49ms) == Duration{100us});
  CHECK_FALSE(pause_after(50ms));
  CHECK_FALSE(pause_after(Duration::max()));
}

TEST_CASE("who looks at the work of many looks as the latest needs it, and for a small part of the time") {
  using detail::look_again_after;
  CHECK(look_again_after(0ns, 0ns) == Duration{20us});
  CHECK(look_again_after(1ms, 1us) == Duration{31'250ns});
  CHECK(look_again_after(1ms, 10us) == Duration{160us});
  CHECK(look_again_after(1ms, 1s) == Duration{5ms});
  CHECK(look_again_after(0ns, Duration::max()) == Duration{5ms});
  CHECK(look_again_after(1s, 0ns) == Duration{5ms});
}

TEST_CASE("a precise sleep leaves the timers of its thread as they were") {
  REQUIRE(::prctl(PR_SET_TIMERSLACK, 77'000UL, 0, 0, 0) == 0);
  const auto start = Clock::now();
  detail::sleep_precisely(200us);
  CHECK(Clock::now() - start >= 200us);
  CHECK(::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 77'000);
  // As a new thread has it.
  REQUIRE(::prctl(PR_SET_TIMERSLACK, 0UL, 0, 0, 0) == 0);
}

TEST_CASE("cuBLAS is told the SMs of a part where that chooses better kernels, and never more than there are") {
  const auto target = [](DType dtype, std::int64_t m, std::int64_t n, int sms) {
    Gemm product;
    product.dtype = dtype;
    product.m = m;
    product.n = n;
    product.k = 4096;
    return cuda::sm_target(product, sms);
  };
  CHECK(target(DType::bf16, 4096, 4096, 64) == 64);
  CHECK(target(DType::f16, 1, 4096, 68) == 64);
  CHECK(target(DType::bf16, 4096, 4096, 4) == 0);
  CHECK(target(DType::f32, 8, 4096, 16) == 16);
  CHECK(target(DType::f32, 4096, 8, 20) == 16);
  for (const auto dtype : {DType::f32, DType::f64}) {
    CHECK(target(dtype, 4096, 4096, 64) == 0);
    CHECK(target(dtype, 1, 4096, 64) == 0);
    CHECK(target(dtype, 33, 4096, 64) == 0);
  }
  CHECK(target(DType::f64, 8, 4096, 64) == 0);
  for (const auto dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
    CHECK(target(dtype, 8, 4096, 0) == 0);
}
