#include <gpuactors/trace/sampler.hpp>

#include <support/catch.hpp>

#include <random>

using namespace gpuactors;

namespace {

constexpr TraceContext none;
constexpr TraceContext recorded{1, 2, 3, true};
constexpr TraceContext unrecorded{1, 2, 3, false};

} // namespace

TEST_CASE("a part of a trace is recorded if what it is a part of is", "[trace]") {
  for (const auto ratio : {0.0, 0.5, 1.0}) {
    CHECK(Sampler{ratio, true}.samples(recorded, 0));
    CHECK_FALSE(Sampler{ratio, true}.samples(unrecorded, 0));
  }
}

TEST_CASE("a sampler that is not based on parents decides for itself", "[trace]") {
  CHECK_FALSE(Sampler{0, false}.samples(recorded, 0));
  CHECK(Sampler{1, false}.samples(unrecorded, ~std::uint64_t{0}));
}

TEST_CASE("a ratio records that part of all traces, and the same ones everywhere", "[trace]") {
  std::mt19937_64 numbers{1};
  constexpr int traces = 100'000;
  int samples = 0;
  for (int i = 0; i < traces; ++i) {
    const auto id = numbers();
    const bool sampled = Sampler{0.25, true}.samples(none, id);
    samples += sampled ? 1 : 0;
    // Whoever records fewer, records some of these.
    if (Sampler{0.1, false}.samples(none, id))
      CHECK(sampled);
  }
  CHECK(samples == Approx(0.25 * traces).margin(0.01 * traces));
  CHECK_FALSE(Sampler{0, true}.samples(none, 0));
  CHECK(Sampler{1, true}.samples(none, ~std::uint64_t{0}));
}
