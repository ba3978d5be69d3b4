// Block kernels and grid kernels that show what they promise. The functors are templates of the block, so that tests
// also run them with blocks of real threads.
#pragma once

#include <gpuactors/device/block_kernel.hpp>
#include <gpuactors/device/float16.hpp>
#include <gpuactors/device/grid_kernel.hpp>

namespace gpuactors::conformance {

/// For each block 2 n + 1 words: adds i + 1 to word i, the number of blocks to word n, and to word n + 1 + i what words
/// n - 1 - i and n have by then, which other threads have written.
struct VisitAll {
  GPUACTORS_FUNCTION void operator()(auto& block, std::uint64_t n, std::uint32_t* counts) const {
    auto* first = counts + block.index() * (2 * n + 1);
    auto* second = first + n + 1;
    block.each(n, [&](std::uint64_t i) { first[i] += 1 + static_cast<std::uint32_t>(i); });
    block.once([&] { first[n] += static_cast<std::uint32_t>(block.count()); });
    block.each(n, [&](std::uint64_t i) { second[i] += first[n - 1 - i] + first[n]; });
  }
};

/// sums[block] = sum over c of x[block][c] * weight
struct BlockSums {
  static constexpr unsigned threads = 128;

  GPUACTORS_FUNCTION void operator()(auto& block, std::uint64_t columns, double weight, const double* x,
                                     double* sums) const {
    const double* row = x + block.index() * columns;
    const double sum = block.sum(columns, [&](std::uint64_t c) { return row[c] * weight; });
    block.once([&] { sums[block.index()] = sum; });
  }
};

/// Subtracts the first value of each row of x from all of them: each thread reads it outside of the step that
/// overwrites it.
struct SubtractFirst {
  GPUACTORS_FUNCTION void operator()(auto& block, std::uint64_t columns, float* x) const {
    float* row = x + block.index() * columns;
    const float first = row[0];
    block.each(columns, [&](std::uint64_t c) { row[c] -= first; });
  }
};

/// sums[0] the sum of x, and sums[1] how many of its values are above zero: of types in which neither has room.
struct NarrowSums {
  GPUACTORS_FUNCTION void operator()(auto& block, std::uint64_t n, const BFloat16* x, float* sums) const {
    const float sum = block.sum(n, [&](std::uint64_t i) { return x[i]; });
    const int count = block.sum(n, [&](std::uint64_t i) { return static_cast<float>(x[i]) > 0; });
    block.once([&] {
      sums[0] = sum;
      sums[1] = static_cast<float>(count);
    });
  }
};

/// Reverses each row of x in place, by way of shared memory.
struct ReverseRows {
  static constexpr unsigned threads = 32;

  GPUACTORS_FUNCTION void operator()(auto& block, std::uint64_t columns, std::int32_t* x) const {
    auto* row = x + block.index() * columns;
    auto* flags = shared_array<std::uint8_t>(block, 3);
    auto* copy = shared_array<std::int32_t>(block, columns);
    block.each(3, [&](std::uint64_t i) { flags[i] = static_cast<std::uint8_t>(i); });
    block.each(columns, [&](std::uint64_t c) { copy[c] = row[c]; });
    block.each(columns, [&](std::uint64_t c) { row[c] = copy[columns - 1 - c] + flags[0]; });
  }
};

/// The largest value of a row and where it is first.
struct Best {
  float value;
  std::uint32_t at;
};

struct FindBest {
  static constexpr unsigned threads = 1024;

  GPUACTORS_FUNCTION void operator()(auto& block, std::uint64_t columns, const float* x, float* best,
                                     std::int32_t* at) const {
    const float* row = x + block.index() * columns;
    const auto found = block.reduce(
        columns, Best{row[0], 0},
        [&](std::uint64_t c) {
          return Best{row[c], static_cast<std::uint32_t>(c)};
        },
        [](Best a, Best b) { return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a; });
    const float most = block.most(columns, [&](std::uint64_t c) { return row[c]; });
    block.once([&] {
      best[block.index()] = most;
      at[block.index()] = static_cast<std::int32_t>(found.at);
    });
  }
};

/// Takes more shared memory than it was given, if it is told to.
struct TakeShared {
  GPUACTORS_FUNCTION void operator()(auto& block, std::uint32_t bytes, std::uint8_t* out) const {
    auto* taken = shared_array<std::uint8_t>(block, bytes);
    block.each(bytes, [&](std::uint64_t i) { taken[i] = static_cast<std::uint8_t>(i); });
    block.once([&] { out[block.index()] = taken[bytes - 1]; });
  }
};

GPUACTORS_DECLARE_BLOCK_KERNEL(visit_all, VisitAll);
GPUACTORS_DECLARE_BLOCK_KERNEL(block_sums, BlockSums);
GPUACTORS_DECLARE_BLOCK_KERNEL(subtract_first, SubtractFirst);
GPUACTORS_DECLARE_BLOCK_KERNEL(narrow_sums, NarrowSums);
GPUACTORS_DECLARE_BLOCK_KERNEL(reverse_rows, ReverseRows);
GPUACTORS_DECLARE_BLOCK_KERNEL(find_best, FindBest);
GPUACTORS_DECLARE_BLOCK_KERNEL(take_shared, TakeShared);

/// y[i] = x[2 i] + x[2 i + 1]; on CUDA with a warp for every 32 of them.
GPUACTORS_DECLARE_GRID_KERNEL(add_pairs, const float*, float*, unsigned);
/// Has no function for host devices.
GPUACTORS_DECLARE_GRID_KERNEL(grid_scale, float*, float, unsigned);

} // namespace gpuactors::conformance
