// Block kernels as CUDA runs them, with a real thread for each of a block's threads: the code is that of the device but
// for the few instructions that only a GPU has.
#include <support/catch.hpp>

#include <conformance/block_probes.hpp>

#include <algorithm>
#include <barrier>
#include <numeric>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::conformance;

namespace {

/// What the threads of a block share.
struct Room {
  explicit Room(unsigned number) : threads(number), barrier(number), words(number) {
    for (unsigned i = 0; i < number / 32; ++i)
      warps.push_back(std::make_unique<std::barrier<>>(32));
  }

  unsigned threads;
  std::barrier<> barrier;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  /// What each lane shows to the others of its warp.
  std::vector<std::array<std::byte, 32>> words;
  alignas(16) std::array<std::byte, 32 * 32> exchange{};
  std::vector<std::max_align_t> shared = std::vector<std::max_align_t>(8192);
};

class EmulatedLanes {
public:
  EmulatedLanes(Room& room, unsigned thread) : room_(&room), thread_(thread) {
    // nop
  }

  [[nodiscard]] unsigned thread() const {
    return thread_;
  }

  [[nodiscard]] unsigned threads() const {
    return room_->threads;
  }

  void sync() const {
    room_->barrier.arrive_and_wait();
  }

  void trap() const {
    FAIL("more shared memory than there is");
  }

  template <class T>
  T from_lane_above(const T& value, unsigned distance) const {
    auto& warp = *room_->warps[thread_ / 32];
    std::memcpy(room_->words[thread_].data(), &value, sizeof(T));
    warp.arrive_and_wait();
    T other = value;
    if (thread_ % 32 + distance < 32)
      std::memcpy(&other, room_->words[thread_ + distance].data(), sizeof(T));
    warp.arrive_and_wait();
    return other;
  }

  [[nodiscard]] void* exchange() const {
    return room_->exchange.data();
  }

  [[nodiscard]] std::byte* shared() const {
    return reinterpret_cast<std::byte*>(room_->shared.data());
  }

private:
  Room* room_;
  unsigned thread_;
};

/// Runs `count` blocks of `F`, one after the other on the same threads, as a grid of one block does.
template <class F, class... Args>
void run(std::uint64_t count, std::size_t shared_bytes, Args... args) {
  using Block = gpuactors::detail::BlockOf<gpuactors::detail::ThreadBlock<EmulatedLanes>>;
  Room room{gpuactors::detail::BlockThreads<F>::value};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < room.threads; ++t)
    threads.emplace_back([&room, t, count, shared_bytes, args...] {
      Block block{EmulatedLanes{room, t}, 0, count, shared_bytes};
      for (std::uint64_t i = 0; i < count; ++i) {
        if (i > 0)
          block.move_to(i);
        F{}(block, args...);
      }
    });
  for (auto& thread : threads)
    thread.join();
}

} // namespace

TEST_CASE("threads of a block visit each item once and see what the others have written before") {
  for (const std::uint64_t n : {1, 31, 257, 600}) {
    constexpr std::uint64_t blocks = 3;
    std::vector<std::uint32_t> counts(blocks * (2 * n + 1), 0);
    run<VisitAll>(blocks, 0, n, counts.data());
    bool right = true;
    for (std::uint64_t i = 0; i < counts.size(); ++i) {
      const auto at = i % (2 * n + 1);
      right = right && counts[i] == (at < n ? at + 1 : at == n ? blocks : 2 * n + 1 - at + blocks);
    }
    CHECK(right);
  }
}

TEST_CASE("threads of a block sum what they share, each time with the same result on all of them") {
  for (const std::uint64_t columns : {1, 100, 128, 5000}) {
    constexpr std::uint64_t rows = 4;
    std::vector<double> x(rows * columns);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = 1.0 / static_cast<double>(i + 1);
    std::vector<double> sums(rows, 0.0);
    run<BlockSums>(rows, 0, columns, 2.0, static_cast<const double*>(x.data()), sums.data());
    for (std::size_t r = 0; r < rows; ++r) {
      const auto* begin = x.data() + r * columns;
      CHECK(sums[r] == Approx(2.0 * std::accumulate(begin, begin + columns, 0.0)).epsilon(1e-13));
    }
    auto again = sums;
    run<BlockSums>(rows, 0, columns, 2.0, static_cast<const double*>(x.data()), again.data());
    CHECK(again == sums);
  }
}

TEST_CASE("threads of a block have read what they read between two steps before the next one writes") {
  constexpr std::uint64_t columns = 777;
  std::vector<float> x(2 * columns, 5.0F);
  run<SubtractFirst>(2, 0, columns, x.data());
  CHECK(x == std::vector<float>(2 * columns, 0.0F));
}

TEST_CASE("threads of a block sum narrow numbers in a type that has room for the sum") {
  constexpr std::uint64_t n = 100'000;
  const std::vector<BFloat16> x(n, BFloat16{1.0F});
  std::vector<float> sums(2);
  run<NarrowSums>(1, 0, n, x.data(), sums.data());
  CHECK(sums == std::vector<float>{100'000.0F, 100'000.0F});
}

TEST_CASE("threads of a block exchange values by shared memory, block after block") {
  constexpr std::uint64_t rows = 5;
  constexpr std::uint64_t columns = 777;
  std::vector<std::int32_t> x(rows * columns);
  std::iota(x.begin(), x.end(), 0);
  auto expected = x;
  for (std::uint64_t r = 0; r < rows; ++r)
    std::reverse(expected.begin() + static_cast<std::ptrdiff_t>(r * columns),
                 expected.begin() + static_cast<std::ptrdiff_t>((r + 1) * columns));
  run<ReverseRows>(rows, shared_bytes<std::uint8_t>(3) + shared_bytes<std::int32_t>(columns), columns, x.data());
  CHECK(x == expected);
}

TEST_CASE("threads of a block find the first of the largest, whatever the order in which they look") {
  constexpr std::uint64_t rows = 2;
  constexpr std::uint64_t columns = 4000;
  std::vector<float> x(rows * columns, 0.0F);
  for (const auto at : {10U, 3000U, 4000U + 2001U, 4000U + 2002U})
    x[at] = 7.0F;
  std::vector<float> best(rows);
  std::vector<std::int32_t> at(rows);
  run<FindBest>(rows, 0, columns, static_cast<const float*>(x.data()), best.data(), at.data());
  CHECK(best == std::vector<float>{7.0F, 7.0F});
  CHECK(at == std::vector<std::int32_t>{10, 2001});
}
