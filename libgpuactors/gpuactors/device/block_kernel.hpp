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
//   sum(n, f), most(n, f)     the sum of f(0) .. f(n - 1), their maximum (of numbers; n at least 1 for `most`)
//   reduce(n, none, f, join)  joins f(0) .. f(n - 1) by `join`, of which `none` is the neutral element; no order of the
//                             joins is promised, but it is the same each time on one kind of device
//   shared_array<T>(block, n) memory that all threads of the block share, with undefined contents
//
// Code outside of these runs on every thread of a block: compute only local values there, and write memory inside. All
// threads must reach the same calls with the same `n`, so conditions around the calls must not depend on the thread.
// After `each` and `once`, all threads of the block see what these wrote. The style follows the hierarchical
// parallelism of Kokkos (Trott et al., 2022).
#pragma once

#include <gpuactors/device/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
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

/// All of a block's arrays begin at multiples of this, so that kernels need not care about gaps.
inline constexpr std::size_t shared_alignment = 16;

GPUACTORS_FUNCTION constexpr std::size_t shared_footprint(std::size_t bytes) {
  return (bytes + shared_alignment - 1) / shared_alignment * shared_alignment;
}

/// The arguments of one launch: number and memory of the blocks, then those of the functor.
template <class... Args>
struct BlockPack {
  std::uint64_t count;
  std::uint64_t shared_bytes;
  KernelPack<Args...> arguments;
};

/// The largest value that threads of a block may join. It is the same on all devices, so that a kernel that compiles
/// for one device compiles for the others.
inline constexpr std::size_t most_exchanged_bytes = 32;
template <class T>
inline constexpr bool may_be_exchanged = std::is_trivially_copyable_v<T> && sizeof(T) <= most_exchanged_bytes
                                         && alignof(T) <= shared_alignment;

/// A block that one thread runs. See the head of this file.
class HostBlock {
public:
  HostBlock(std::uint64_t index, std::uint64_t count, std::byte* shared, std::size_t shared_bytes)
    : index_(index), count_(count), shared_(shared), shared_bytes_(shared_bytes) {
    // nop
  }

  [[nodiscard]] std::uint64_t index() const noexcept {
    return index_;
  }

  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_;
  }

  template <class F>
  void each(std::uint64_t n, const F& f) {
    for (std::uint64_t i = 0; i < n; ++i)
      f(i);
  }

  template <class F>
  void once(const F& f) {
    f();
  }

  template <class T, class F, class Join>
  [[nodiscard]] T reduce(std::uint64_t n, T none, const F& f, const Join& join) {
    static_assert(may_be_exchanged<T>);
    // Several chains, which a processor computes in parallel, perhaps in one vector.
    constexpr std::uint64_t chains = 8;
    std::array<T, chains> parts;
    parts.fill(none);
    const auto whole = n / chains * chains;
    for (std::uint64_t i = 0; i < whole; i += chains)
      for (std::uint64_t chain = 0; chain < chains; ++chain)
        parts[chain] = join(parts[chain], f(i + chain));
    for (auto i = whole; i < n; ++i)
      parts[i - whole] = join(parts[i - whole], f(i));
    T result = parts[0];
    for (std::uint64_t chain = 1; chain < chains; ++chain)
      result = join(result, parts[chain]);
    return result;
  }

  [[nodiscard]] void* take_shared(std::size_t bytes) {
    const auto begin = taken_;
    taken_ += shared_footprint(bytes);
    if (taken_ > shared_bytes_) [[unlikely]]
      refuse();
    return shared_ + begin;
  }

private:
  [[noreturn]] [[gnu::noinline]] void refuse() const {
    throw std::length_error("a block needs " + std::to_string(taken_) + " B of shared memory and was started with "
                            + std::to_string(shared_bytes_) + " B (Blocks::shared_bytes)");
  }

  std::uint64_t index_;
  std::uint64_t count_;
  std::byte* shared_;
  std::size_t shared_bytes_;
  std::size_t taken_ = 0;
};

/// A block of CUDA threads, as one of them sees it. `Lanes` is the hardware as a thread sees it: the thread's number,
/// the number of threads, the barrier, the exchange within a warp, the block's memory. See the head of this file.
template <class Lanes>
class ThreadBlock {
public:
  GPUACTORS_FUNCTION ThreadBlock(Lanes lanes, std::uint64_t index, std::uint64_t count, std::size_t shared_bytes)
    : lanes_(lanes), index_(index), count_(count), shared_bytes_(shared_bytes) {
    // nop
  }

  [[nodiscard]] GPUACTORS_FUNCTION std::uint64_t index() const noexcept {
    return index_;
  }

  [[nodiscard]] GPUACTORS_FUNCTION std::uint64_t count() const noexcept {
    return count_;
  }

  template <class F>
  GPUACTORS_FUNCTION void each(std::uint64_t n, const F& f) {
    for (std::uint64_t i = lanes_.thread(); i < n; i += lanes_.threads())
      f(i);
    lanes_.sync();
  }

  template <class F>
  GPUACTORS_FUNCTION void once(const F& f) {
    if (lanes_.thread() == 0)
      f();
    lanes_.sync();
  }

  template <class T, class F, class Join>
  [[nodiscard]] GPUACTORS_FUNCTION T reduce(std::uint64_t n, T none, const F& f, const Join& join) {
    static_assert(may_be_exchanged<T>);
    T value = none;
    for (std::uint64_t i = lanes_.thread(); i < n; i += lanes_.threads())
      value = join(value, f(i));
    value = reduce_warp(value, join);
    auto* parts = static_cast<T*>(lanes_.exchange());
    const auto lane = lanes_.thread() % warp;
    const auto warps = lanes_.threads() / warp;
    if (lane == 0)
      parts[lanes_.thread() / warp] = value;
    lanes_.sync();
    if (lanes_.thread() < warp) {
      value = reduce_warp(lane < warps ? parts[lane] : none, join);
      if (lane == 0)
        parts[0] = value;
    }
    lanes_.sync();
    value = parts[0];
    // The next reduction writes there.
    lanes_.sync();
    return value;
  }

  [[nodiscard]] GPUACTORS_FUNCTION void* take_shared(std::size_t bytes) {
    const auto begin = taken_;
    taken_ += shared_footprint(bytes);
    if (taken_ > shared_bytes_)
      lanes_.trap();
    return lanes_.shared() + begin;
  }

  /// Moves on to the next block that the same threads run.
  GPUACTORS_FUNCTION void move_to(std::uint64_t index) {
    lanes_.sync();
    index_ = index;
    taken_ = 0;
  }

private:
  static constexpr unsigned warp = 32;

  /// Joins the values of a warp; its first lane gets the result.
  template <class T, class Join>
  GPUACTORS_FUNCTION T reduce_warp(T value, const Join& join) {
    for (auto distance = warp / 2; distance > 0; distance /= 2)
      value = join(value, lanes_.from_lane_above(value, distance));
    return value;
  }

  Lanes lanes_;
  std::uint64_t index_;
  std::uint64_t count_;
  std::size_t shared_bytes_;
  std::size_t taken_ = 0;
};

/// The operations that are built on those of any kind of block.
template <class Base>
class BlockOf : public Base {
public:
  using Base::Base;

  template <class F>
  [[nodiscard]] GPUACTORS_FUNCTION auto sum(std::uint64_t n, const F& f) {
    using T = decltype(f(n));
    return this->reduce(n, T{0}, f, [](T a, T b) { return static_cast<T>(a + b); });
  }

  template <class F>
  [[nodiscard]] GPUACTORS_FUNCTION auto most(std::uint64_t n, const F& f) {
    using T = decltype(f(n));
    // Begins with one of the values, so that no lowest value is needed.
    return this->reduce(n, f(0), f, [](T a, T b) { return a < b ? b : a; });
  }
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
  return detail::shared_footprint(n * sizeof(T));
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

/// The hardware as a CUDA thread sees it.
class CudaLanes {
public:
  GPUACTORS_FUNCTION unsigned thread() const {
#ifdef __CUDA_ARCH__
    return threadIdx.x;
#else
    return 0;
#endif
  }

  GPUACTORS_FUNCTION unsigned threads() const {
#ifdef __CUDA_ARCH__
    return blockDim.x;
#else
    return 1;
#endif
  }

  GPUACTORS_FUNCTION void sync() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }

  GPUACTORS_FUNCTION void trap() const {
#ifdef __CUDA_ARCH__
    __trap();
#endif
  }

  /// Returns the value of the lane that is `distance` above; any value on the last lanes.
  template <class T>
  GPUACTORS_FUNCTION T from_lane_above([[maybe_unused]] const T& value, [[maybe_unused]] unsigned distance) const {
#ifdef __CUDA_ARCH__
    constexpr auto words = (sizeof(T) + sizeof(unsigned) - 1) / sizeof(unsigned);
    unsigned parts[words] = {};
    memcpy(parts, &value, sizeof(T));
    for (auto& part : parts)
      part = __shfl_down_sync(0xffffffffU, part, distance);
    T other;
    memcpy(&other, parts, sizeof(T));
    return other;
#else
    return value;
#endif
  }

  /// Returns room for one value of each warp.
  GPUACTORS_FUNCTION void* exchange() const {
#ifdef __CUDA_ARCH__
    __shared__ alignas(shared_alignment) unsigned char room[32 * most_exchanged_bytes];
    return room;
#else
    return nullptr;
#endif
  }

  GPUACTORS_FUNCTION unsigned char* shared() const {
#ifdef __CUDA_ARCH__
    extern __shared__ uint4 gpuactors_shared_memory[];
    return reinterpret_cast<unsigned char*>(gpuactors_shared_memory);
#else
    return nullptr;
#endif
  }
};

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
