// The table of batch times: what it tells before, between and beyond its measurements, and that it forgets.
#include <apps/serve/batching/batch_times.hpp>
#include <support/catch.hpp>

#include <random>

using namespace std::chrono_literals;
using gpuactors::Duration;
using gpuactors::Share;
using serve::batching::BatchTimes;

namespace {

constexpr Share quarter{2'500};
constexpr Share half{5'000};

} // namespace

TEST_CASE("a table without measurements estimates nothing", "[serve]") {
  const BatchTimes times;
  CHECK(times.estimate(quarter, 1) == 0ns);
  CHECK(times.estimate(quarter, 1'000'000) == 0ns);
  CHECK_FALSE(times.measured(quarter, 1));
}

TEST_CASE("a single measurement is the estimate of its size, which is rounded up to a power of two", "[serve]") {
  BatchTimes times;
  times.add(quarter, 5, 8ms);
  for (const auto rows : {5, 6, 7, 8}) {
    CHECK(times.estimate(quarter, static_cast<std::uint64_t>(rows)) == 8ms);
    CHECK(times.measured(quarter, static_cast<std::uint64_t>(rows)));
  }
  CHECK_FALSE(times.measured(quarter, 4));
  CHECK_FALSE(times.measured(quarter, 9));
}

TEST_CASE("smaller batches are bounded by larger ones, and larger ones grow in proportion", "[serve]") {
  BatchTimes times;
  times.add(quarter, 8, 8ms);
  CHECK(times.estimate(quarter, 1) == 8ms);
  CHECK(times.estimate(quarter, 16) == 16ms);
  CHECK(times.estimate(quarter, 64) == 64ms);
  times.add(quarter, 64, 20ms);
  CHECK(times.estimate(quarter, 16) == 16ms);
  CHECK(times.estimate(quarter, 32) == 20ms);
  CHECK(times.estimate(quarter, 64) == 20ms);
}

TEST_CASE("times that vary are estimated near the longest of them", "[serve]") {
  BatchTimes times;
  for (int i = 0; i < 100; ++i)
    times.add(quarter, 4, i % 2 == 0 ? 9ms : 11ms);
  CHECK(times.estimate(quarter, 4) >= 11ms);
  CHECK(times.estimate(quarter, 4) <= 14ms);
}

TEST_CASE("a table forgets what is long ago", "[serve]") {
  BatchTimes times;
  for (int i = 0; i < 10; ++i)
    times.add(quarter, 4, 100ms);
  for (int i = 0; i < 100; ++i)
    times.add(quarter, 4, 1ms);
  CHECK(times.estimate(quarter, 4) < 2ms);
}

TEST_CASE("a size that took long once is tried again when smaller ones have been measured for long", "[serve]") {
  BatchTimes times;
  for (std::uint64_t rows = 1; rows <= 32; rows *= 2)
    for (int i = 0; i < 3; ++i)
      times.add(quarter, rows, 3ms);
  times.add(quarter, 6, 1s); // the machine was paused
  CHECK(times.estimate(quarter, 6) > 400ms);
  for (int i = 0; i < 128; ++i)
    times.add(quarter, 4, 3ms);
  CHECK(times.estimate(quarter, 6) > 400ms);
  times.add(quarter, 4, 3ms);
  CHECK(times.estimate(quarter, 5) == 12ms);
  CHECK(times.estimate(quarter, 32) == 12ms); // as it was measured, but no shorter than smaller ones
  // And if it takes as long as it should then, that one time is forgotten.
  auto tried = times;
  tried.add(quarter, 6, 3ms);
  CHECK(tried.estimate(quarter, 6) == 3ms);
  // Where that is too long to be tried, too, it is thought to be less in time.
  for (int i = 0; i < 2'000; ++i)
    times.add(quarter, 4, 3ms);
  CHECK(times.estimate(quarter, 8) == 3ms);
  // What is measured then counts as ever.
  times.add(quarter, 8, 2s);
  CHECK(times.estimate(quarter, 8) > 400ms);
}

TEST_CASE("a size that takes long again and again does so after a quiet night, too", "[serve]") {
  BatchTimes times;
  for (int i = 0; i < 10; ++i)
    times.add(quarter, 32, 80ms);
  for (int i = 0; i < 10'000; ++i)
    times.add(quarter, 1, 5ms);
  CHECK(times.estimate(quarter, 32) == 80ms);
}

TEST_CASE("a small size that took long once keeps no larger one from being tried", "[serve]") {
  BatchTimes times;
  times.add(quarter, 1, 500ms);
  times.add(quarter, 8, 5ms);
  CHECK(times.estimate(quarter, 8) == 500ms);
  for (int i = 0; i < 200; ++i)
    times.add(quarter, 8, 5ms);
  CHECK(times.estimate(quarter, 8) == 5ms);
  CHECK(times.estimate(quarter, 1) == 5ms);
}

TEST_CASE("an unknown share takes as long as a smaller one, or longer than a larger one in proportion", "[serve]") {
  BatchTimes times;
  times.add(half, 4, 10ms);
  CHECK(times.estimate(quarter, 4) == 20ms);
  CHECK(times.estimate(Share::whole(1), 4) == 10ms);
  times.add(quarter, 4, 15ms);
  CHECK(times.estimate(quarter, 4) == 15ms);
  CHECK(times.estimate(half, 4) == 10ms);
}

TEST_CASE("estimates never fall as a batch grows, whatever was measured", "[serve]") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random{seed};
    BatchTimes times;
    for (int i = 0; i < 200; ++i) {
      times.add(quarter, 1 + random() % 300, Duration{random() % 1'000'000});
      Duration last = 0ns;
      for (std::uint64_t rows = 1; rows <= 1'024; rows = rows * 5 / 4 + 1) {
        const auto estimate = times.estimate(quarter, rows);
        INFO("seed " << seed << ", measurement " << i << ", rows " << rows);
        REQUIRE(estimate >= last);
        last = estimate;
      }
    }
  }
}

TEST_CASE("absurd times and sizes do not overflow", "[serve]") {
  BatchTimes times;
  times.add(quarter, 1, Duration::max());
  CHECK(times.estimate(quarter, ~std::uint64_t{0}) > 0ns);
  CHECK(times.estimate(Share{1}, 1) > 0ns);
  times.add(quarter, 1, -1ms);
  CHECK(times.estimate(quarter, 1) > 0ns);
}
