// Block kernels and grid kernels: every item once, barriers, sums, shared memory, and what is refused.
#include <conformance/block_probes.hpp>
#include <conformance/candidates.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace gpuactors;
using namespace gpuactors::conformance;

TEST_CASE("a block kernel visits each item of each block once, and waits between its steps") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    for (const std::uint64_t n : {1, 31, 256, 1000}) {
      constexpr std::uint64_t blocks = 37;
      const auto words = 2 * n + 1;
      const auto row = [&](std::uint64_t i) -> std::uint64_t {
        return i < n ? i + 1 : i == n ? blocks : (n - (i - n - 1)) + blocks;
      };
      auto counts = stream.tensor_from(std::vector<std::int32_t>(blocks * words, 0));
      REQUIRE(counts);
      REQUIRE(stream.launch(visit_all, Blocks{blocks}, n, static_cast<std::uint32_t*>(counts->raw())));
      const auto seen = *stream.to_host<std::int32_t>(*counts);
      bool right = true;
      for (std::uint64_t i = 0; i < seen.size(); ++i)
        right = right && static_cast<std::uint64_t>(seen[i]) == row(i % words);
      CHECK(right);
    }
  }
}

TEST_CASE("the sum of a block is right, the same each time, and for fewer items than there are threads") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    for (const std::size_t columns : {std::size_t{1}, std::size_t{7}, std::size_t{128}, std::size_t{10'007}}) {
      constexpr std::size_t rows = 9;
      const auto x = values<double>(rows * columns, columns);
      auto in = stream.tensor_from(x);
      auto sums = stream.tensor(DType::f64, {static_cast<std::int64_t>(rows)});
      REQUIRE(in);
      REQUIRE(sums);
      REQUIRE(stream.launch(block_sums, Blocks{rows}, columns, 0.5, *in, *sums));
      const auto first = *stream.to_host<double>(*sums);
      for (std::size_t r = 0; r < rows; ++r) {
        const auto* begin = x.data() + r * columns;
        CHECK(std::abs(first[r] - 0.5 * std::accumulate(begin, begin + columns, 0.0)) < 1e-10);
      }
      REQUIRE(stream.launch(block_sums, Blocks{rows}, columns, 0.5, *in, *sums));
      CHECK(*stream.to_host<double>(*sums) == first);
    }
  }
}

TEST_CASE("what threads read between two steps is what was there before the next one, and narrow numbers add up") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    constexpr std::uint64_t rows = 50;
    constexpr std::uint64_t columns = 2000;
    auto x = stream.tensor_from(std::vector<float>(rows * columns, 5.0F));
    REQUIRE(x);
    REQUIRE(stream.launch(subtract_first, Blocks{rows}, columns, *x));
    CHECK(*stream.to_host<float>(*x) == std::vector<float>(rows * columns, 0.0F));
    constexpr std::uint64_t n = 100'000;
    auto ones = stream.tensor_from(std::vector<BFloat16>(n, BFloat16{1.0F}));
    auto sums = stream.tensor(DType::f32, {2});
    REQUIRE(ones);
    REQUIRE(sums);
    REQUIRE(stream.launch(narrow_sums, Blocks{1}, n, *ones, *sums));
    CHECK(*stream.to_host<float>(*sums) == std::vector<float>{100'000.0F, 100'000.0F});
  }
}

TEST_CASE("the threads of a block exchange what they have by shared memory, also beyond 48 KiB") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    for (const std::size_t columns : {std::size_t{5}, std::size_t{1000}, std::size_t{20'000}}) {
      constexpr std::size_t rows = 6;
      std::vector<std::int32_t> x(rows * columns);
      std::iota(x.begin(), x.end(), 0);
      auto tensor = stream.tensor_from(x);
      REQUIRE(tensor);
      const auto bytes = shared_bytes<std::uint8_t>(3) + shared_bytes<std::int32_t>(columns);
      REQUIRE(stream.launch(reverse_rows, Blocks{rows, bytes}, columns, *tensor));
      for (std::size_t r = 0; r < rows; ++r)
        std::reverse(x.begin() + static_cast<std::ptrdiff_t>(r * columns),
                     x.begin() + static_cast<std::ptrdiff_t>((r + 1) * columns));
      CHECK(*stream.to_host<std::int32_t>(*tensor) == x);
    }
  }
}

TEST_CASE("values of several words are joined in any order, with the same result") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    constexpr std::size_t rows = 5;
    constexpr std::size_t columns = 3001;
    auto x = values<float>(rows * columns, 3);
    for (std::size_t r = 0; r < rows; ++r)
      for (const auto at : {700 + r, 2500 + r})
        x[r * columns + at] = 2.0F;
    auto in = stream.tensor_from(x);
    auto best = stream.tensor(DType::f32, {rows});
    auto at = stream.tensor(DType::i32, {rows});
    REQUIRE(in);
    REQUIRE(stream.launch(find_best, Blocks{rows}, columns, *in, *best, *at));
    CHECK(*stream.to_host<float>(*best) == std::vector<float>(rows, 2.0F));
    CHECK(*stream.to_host<std::int32_t>(*at) == std::vector<std::int32_t>{700, 701, 702, 703, 704});
  }
}

TEST_CASE("blocks that cannot be started are refused, with what would be right") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto out = stream.tensor(DType::u8, {4});
    REQUIRE(out);
    CHECK(stream.launch(take_shared, Blocks{0, 16}, 1U, *out).error().message()
          == "kernel take_shared was started over 0 blocks; at least 1 is needed");
    CHECK(stream.launch(take_shared, Blocks{1, limits::most_shared_bytes + 1}, 1U, *out).error().message()
          == "kernel take_shared was started with 262145 B of shared memory for each block; 262144 B is the most");
    CHECK(stream.launch(take_shared, Blocks{1, shared_bytes<float>(1U << 30U)}, 1U, *out).error().code()
          == Errc::invalid_argument);
    auto wrong = stream.tensor(DType::f32, {4});
    CHECK(stream.launch(take_shared, Blocks{4, 16}, 1U, *wrong).error().code() == Errc::invalid_argument);
    REQUIRE(stream.launch(take_shared, Blocks{4, 16}, 16U, *out));
    CHECK(*stream.to_host<std::uint8_t>(*out) == std::vector<std::uint8_t>(4, 15));
    // On CUDA that is an error after which the process ends.
    if (candidate.device->info().kind == DeviceKind::cuda)
      continue;
    REQUIRE(stream.launch(take_shared, Blocks{4, 16}, 17U, *out));
    const auto failed = stream.synchronize();
    REQUIRE(!failed);
    CHECK(failed.error().code() == Errc::launch_failed);
    CHECK(failed.error().message().find("a block needs 32 B of shared memory and was started with 16 B")
          != std::string::npos);
  }
}

TEST_CASE("a grid kernel runs over its own grid, and on a host device if there is a function for it") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    constexpr unsigned n = 10'001;
    const auto x = values<float>(2 * n, 5);
    auto in = stream.tensor_from(x);
    auto out = stream.tensor(DType::f32, {n});
    REQUIRE(in);
    REQUIRE(out);
    REQUIRE(stream.launch(add_pairs, LaunchShape{{(2 * n + 255) / 256, 1, 1}, {256, 1, 1}}, *in, *out, n));
    std::vector<float> expected;
    for (std::size_t i = 0; i < n; ++i)
      expected.push_back(x[2 * i] + x[2 * i + 1]);
    CHECK(*stream.to_host<float>(*out) == expected);
    CHECK(stream.launch(add_pairs, LaunchShape{{0, 1, 1}, {256, 1, 1}}, *in, *out, n).error().code()
          == Errc::invalid_argument);
    if (candidate.device->info().kind != DeviceKind::host)
      continue;
    const auto refused = stream.launch(grid_scale, LaunchShape{}, *out, 2.0F, n);
    REQUIRE(!refused);
    CHECK(refused.error().code() == Errc::unsupported);
    CHECK(refused.error().message().find("kernel grid_scale has no code for host devices") != std::string::npos);
  }
}
