// The blocks that block kernels see (block_kernel.hpp): one that a host thread runs, and one of CUDA threads. This
// header needs no CUDA headers.
#pragma once

#include <gpuactors/device/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace gpuactors::detail {

/// All of a block's arrays begin at multiples of this, so that kernels need not care about gaps.
inline constexpr std::size_t shared_alignment = 16;

/// Returns how many bytes an array of `bytes` takes of a block's shared memory.
GPUACTORS_FUNCTION constexpr std::size_t padded_size(std::size_t bytes) {
  return (bytes + shared_alignment - 1) / shared_alignment * shared_alignment;
}

/// The largest value that threads of a block may join. It is the same on all devices, so that a kernel that compiles
/// for one device compiles for the others.
inline constexpr std::size_t most_exchanged_bytes = 32;
template <class T>
inline constexpr bool may_be_exchanged = std::is_trivially_copyable_v<T> && sizeof(T) <= most_exchanged_bytes
                                         && alignof(T) <= shared_alignment;

/// A block that one thread runs. See the head of block_kernel.hpp.
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
    taken_ += padded_size(bytes);
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
/// the number of threads, the barrier, the exchange within a warp, the block's memory. See the head of
/// block_kernel.hpp.
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
    // Some thread may still be reading, outside of any step, what others write in this one.
    lanes_.sync();
    for (std::uint64_t i = lanes_.thread(); i < n; i += lanes_.threads())
      f(i);
    lanes_.sync();
  }

  template <class F>
  GPUACTORS_FUNCTION void once(const F& f) {
    lanes_.sync();
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
    taken_ += padded_size(bytes);
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
    // What C++ adds such values in: 16-bit floats in f32, small integers in int.
    using T = decltype(f(n) + f(n));
    return this->reduce(
        n, T{0}, [&f](std::uint64_t i) { return static_cast<T>(f(i)); },
        [](T a, T b) { return static_cast<T>(a + b); });
  }

  template <class F>
  [[nodiscard]] GPUACTORS_FUNCTION auto most(std::uint64_t n, const F& f) {
    using T = decltype(f(n));
    // Begins with one of the values, so that no lowest value is needed.
    return this->reduce(n, f(0), f, [](T a, T b) { return a < b ? b : a; });
  }
};

#ifdef __CUDACC__
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
#endif

} // namespace gpuactors::detail
