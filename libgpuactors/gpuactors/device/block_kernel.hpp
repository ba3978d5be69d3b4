// Block kernels: a functor for each block of threads that share memory and wait for one another. Like kernels over an
// index (kernel.hpp), it is written once and runs on both kinds of device. This header needs no CUDA headers.
//
//   // normalize.hpp: one block for each row
//   struct Normalize {
//     GPUACTORS_FUNCTION void operator()(auto& block, std::uint64_t columns, float* x) const {
//       float* row = x + block.index() * columns;
//       const float sum = block.sum(columns, [&](std::uint64_t c) { return row[c] * row[c]; });
//       block.each(columns, [&](std::uint64_t c) { row[c] /= std::sqrt(sum); });
//     }
//   };
//   GPUACTORS_DECLARE_BLOCK_KERNEL(normalize, Normalize);
//
//   // normalize.cu, built by gpuactors_add_kernels()
//   GPUACTORS_DEFINE_BLOCK_KERNEL(normalize, Normalize)
//
//   // anywhere
//   stream.launch(normalize, gpuactors::Blocks{rows}, columns, x);
//
// A block has 256 threads on CUDA, or as many as the functor says: `static constexpr unsigned threads = 128;` (a
// multiple of 32, at most 1024). On a host device, one thread does all the work of a block, and blocks run in parallel.
// `block` offers:
//
//   index(), count()          which block this is, and how many there are
//   each(n, f)                calls f(0) .. f(n - 1), each once, on the threads of the block; waits for all
//   once(f)                   calls f() on one of them; waits for it
//   sum(n, f)                 the sum of f(0) .. f(n - 1), in the type that C++ adds such values in: f32 for 16-bit
//                             floats, int for bool and small integers
//   most(n, f)                their maximum; n at least 1
//   reduce(n, none, f, join)  joins f(0) .. f(n - 1) by `join`, of which `none` is the neutral element; no order of the
//                             joins is promised, but it is the same each time on one kind of device
//   shared_array<T>(block, n) memory that all threads of the block share, with undefined contents
//
// Code outside of these runs on every thread of a block: compute only local values there, and write memory inside. All
// threads must reach the same calls with the same `n`, so conditions around the calls must not depend on the thread.
// After `each` and `once`, all threads of the block see what these wrote; what they read outside, they have read before
// the next of them writes. The style follows the hierarchical parallelism of Kokkos (Trott et al., 2022).
#pragma once

#include <gpuactors/device/kernel.hpp>
#include <gpuactors/device/thread_block.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace gpuactors {

/// The number of blocks that a block kernel runs, and their memory.
struct Blocks {
  std::uint64_t count = 1;
  /// Bytes that `shared_array` may hand out in each block: the sum of `shared_bytes<T>(n)` over its arrays. Up to 46
  /// KiB everywhere; a chip may have more, up to `limits::most_shared_bytes`.
  std::size_t shared_bytes = 0;
};

namespace detail {

/// The arguments of one launch: number and memory of the blocks, then those of the functor.
template <class... Args>
struct BlockPack {
  std::uint64_t count;
  std::uint64_t shared_bytes;
  KernelPack<Args...> arguments;
};

template <class Call>
struct BlockSignature;

template <class F, class Block, class... Args>
struct BlockSignature<void (F::*)(Block&, Args...) const> {
  using Pack = BlockPack<Args...>;
  template <template <class...> class Kind>
  using Apply = Kind<Args...>;
};

template <class F>
using BlockSignatureOf = BlockSignature<decltype(&F::template operator()<BlockOf<HostBlock>>)>;

template <class F>
struct BlockThreads {
  static constexpr unsigned value = 256;
};

template <class F>
requires requires {
  F::threads;
}
struct BlockThreads<F> {
  static constexpr unsigned value = F::threads;
  static_assert(value % 32 == 0 && value > 0 && value <= 1024, "a block has a multiple of 32 threads, at most 1024");
};

/// Returns at least `bytes` of memory, which the thread's next blocks reuse.
[[gnu::noinline]] inline std::byte* shared_memory_of_thread(std::size_t bytes) {
  static_assert(alignof(std::max_align_t) >= shared_alignment);
  thread_local std::vector<std::max_align_t> memory;
  const auto units = bytes / sizeof(std::max_align_t) + 1;
  if (memory.size() < units)
    memory.resize(units);
  return reinterpret_cast<std::byte*>(memory.data());
}

/// Calls the functor as a kernel over an index would be, so that both share their arguments' pack.
template <class F, class Block>
struct OnBlock {
  Block& block;

  template <class... Args>
  GPUACTORS_FUNCTION void operator()(std::uint64_t, Args... args) const {
    const F functor{};
    functor(block, args...);
  }
};

/// Runs blocks [begin, end) of the functor `F` on a host thread.
template <class F>
struct BlockLoop {
  using Block = BlockOf<HostBlock>;

  static void run(std::uint64_t begin, std::uint64_t end, const void* pack) {
    const auto& [count, shared_bytes, arguments] = *static_cast<const typename BlockSignatureOf<F>::Pack*>(pack);
    const auto bytes = static_cast<std::size_t>(shared_bytes);
    auto* const shared = shared_memory_of_thread(bytes);
    for (auto i = begin; i < end; ++i) {
      Block block{i, count, shared, bytes};
      arguments.call(OnBlock<F, Block>{block}, i);
    }
  }
};

} // namespace detail

/// Returns an array of `n` elements that all threads of `block` share, with undefined contents. Every thread must ask
/// for the same arrays in the same order. Beyond `Blocks::shared_bytes`, the launch fails on host devices; on CUDA that
/// is an error after which the process is replaced (`context_lost`).
template <class T, class Block>
[[nodiscard]] GPUACTORS_FUNCTION T* shared_array(Block& block, std::size_t n) {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= detail::shared_alignment);
  return static_cast<T*>(block.take_shared(n * sizeof(T)));
}

/// Returns how many bytes `shared_array<T>(block, n)` takes.
template <class T>
[[nodiscard]] constexpr std::size_t shared_bytes(std::size_t n) {
  return detail::padded_size(n * sizeof(T));
}

/// A block kernel that takes `Args`. Define it with `GPUACTORS_DEFINE_BLOCK_KERNEL`.
template <class... Args>
struct BlockKernel {
  static_assert((std::is_trivially_copyable_v<Args> && ...), "kernel arguments are copied as bytes");
  static_assert(((alignof(Args) <= alignof(std::max_align_t)) && ...),
                "kernel arguments are kept as bytes of any type");

  KernelInfo info;
  /// Threads of a block on CUDA.
  unsigned threads = 256;
};

/// The `BlockKernel` type of a functor `void operator()(auto& block, Args...) const`.
template <class F>
using BlockKernelOf = typename detail::BlockSignatureOf<F>::template Apply<BlockKernel>;

#ifdef __CUDACC__
namespace detail {

template <class F>
__device__ void run_blocks(std::uint64_t n, const typename BlockSignatureOf<F>::Pack& pack) {
  using Block = BlockOf<ThreadBlock<CudaLanes>>;
  Block block{CudaLanes{}, std::uint64_t{blockIdx.x}, n, static_cast<std::size_t>(pack.shared_bytes)};
  const OnBlock<F, Block> call{block};
  for (std::uint64_t i = blockIdx.x; i < n; i += gridDim.x) {
    if (i != blockIdx.x)
      block.move_to(i);
    pack.arguments.call(call, i);
  }
}

} // namespace detail
#endif

} // namespace gpuactors

/// Declares the block kernel `name` of `Functor` in a header. Namespace scope.
#define GPUACTORS_DECLARE_BLOCK_KERNEL(name, Functor) extern const ::gpuactors::BlockKernelOf<Functor> name

/// Defines the block kernel `name` in a .cu file that `gpuactors_add_kernels()` builds. Namespace scope.
// NOLINTBEGIN(bugprone-macro-parentheses): names cannot be in parentheses
#ifdef __CUDACC__
#define GPUACTORS_DEFINE_BLOCK_KERNEL(name, Functor)                                                                   \
  extern "C" __global__ void __launch_bounds__(::gpuactors::detail::BlockThreads<Functor>::value)                      \
      gpuactors_kernel_##name(std::uint64_t n, ::gpuactors::detail::BlockSignatureOf<Functor>::Pack pack) {            \
    ::gpuactors::detail::run_blocks<Functor>(n, pack);                                                                 \
  }
#else
#define GPUACTORS_DEFINE_BLOCK_KERNEL(name, Functor)                                                                   \
  extern const ::gpuactors::BlockKernelOf<Functor> name;                                                               \
  const ::gpuactors::BlockKernelOf<Functor> name{                                                                      \
      {#name, &::gpuactors::detail::run_loop<::gpuactors::detail::BlockLoop<Functor>>, &GPUACTORS_KERNEL_IMAGE},       \
      ::gpuactors::detail::BlockThreads<Functor>::value};
#endif
// NOLINTEND(bugprone-macro-parentheses)
