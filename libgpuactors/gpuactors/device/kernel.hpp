// Kernels: a functor over an index space, written once, compiled by the C++ compiler for host devices and by nvcc for
// CUDA. This header compiles under both and needs no CUDA headers.
//
//   // axpy.hpp
//   struct Axpy {
//     GPUACTORS_FUNCTION void operator()(std::uint64_t i, float a, const float* x, float* y) const {
//       y[i] += a * x[i];
//     }
//   };
//   GPUACTORS_DECLARE_KERNEL(axpy, Axpy);
//
//   // axpy.cu, built by gpuactors_add_kernels()
//   GPUACTORS_DEFINE_KERNEL(axpy, Axpy)
//
//   // anywhere
//   stream.launch(axpy, n, 2.0F, x, y); // tensors, or pointers
//
// Kernels whose threads work together: block_kernel.hpp. Kernels of CUDA with a grid of their own: grid_kernel.hpp.
//
// For CUDA, the program contains the kernel as an image (machine code and PTX), which the driver loads when a context
// opens, or at the first launch where it came later. The program itself does not link against CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define GPUACTORS_FUNCTION __host__ __device__
#else
#define GPUACTORS_FUNCTION
#endif

namespace gpuactors {

/// The arguments of one launch as a plain value, so a host thread and a CUDA grid get the same bytes.
template <class... Args>
struct KernelPack;

template <>
struct KernelPack<> {
  template <class F, class... Front>
  GPUACTORS_FUNCTION void call(const F& functor, std::uint64_t i, Front... front) const {
    functor(i, front...);
  }
};

template <class First, class... Rest>
struct KernelPack<First, Rest...> {
  First first;
  KernelPack<Rest...> rest;

  template <class F, class... Front>
  GPUACTORS_FUNCTION void call(const F& functor, std::uint64_t i, Front... front) const {
    rest.call(functor, i, front..., first);
  }
};

GPUACTORS_FUNCTION inline KernelPack<> pack_arguments() {
  return {};
}

template <class First, class... Rest>
GPUACTORS_FUNCTION KernelPack<First, Rest...> pack_arguments(First first, Rest... rest) {
  return {first, pack_arguments(rest...)};
}

/// Machine code for CUDA devices, embedded in the program. Empty if the build had no CUDA toolkit.
struct KernelImage {
  const unsigned char* begin;
  const unsigned char* end;

  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(end - begin);
  }
};

/// Runs indices [begin, end) on the calling thread; `pack` points to the kernel's `KernelPack`.
using HostKernel = void (*)(std::uint64_t begin, std::uint64_t end, const void* pack);

/// A kernel without its argument types, as a backend needs it for a launch.
struct KernelInfo {
  /// Unique within its image; the CUDA entry is "gpuactors_kernel_" + name.
  const char* name;
  HostKernel host;
  const KernelImage* image;
};

/// A kernel that takes `Args` after the index. Define it with `GPUACTORS_DEFINE_KERNEL`.
template <class... Args>
struct Kernel {
  using Pack = KernelPack<Args...>;
  static_assert((std::is_trivially_copyable_v<Args> && ...), "kernel arguments are copied as bytes");
  static_assert(((alignof(Args) <= alignof(std::max_align_t)) && ...),
                "kernel arguments are kept as bytes of any type");

  KernelInfo info;
};

namespace detail {

template <class Call>
struct KernelSignature;

template <class F, class... Args>
struct KernelSignature<void (F::*)(std::uint64_t, Args...) const> {
  using Type = Kernel<Args...>;
  using Pack = KernelPack<Args...>;
};

/// Runs indices [begin, end) of the functor `F` on a host thread.
template <class F>
struct IndexLoop {
  static void run(std::uint64_t begin, std::uint64_t end, const void* pack) {
    const auto& arguments = *static_cast<const typename KernelSignature<decltype(&F::operator())>::Pack*>(pack);
    const F functor{};
    for (auto i = begin; i < end; ++i)
      arguments.call(functor, i);
  }
};

// No separate version for wide vectors where the compiler may round differently for them (FMA, fast math), or uses them
// anyway.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__) && !defined(__AVX2__) && !defined(__FMA__)        \
    && !defined(__FAST_MATH__) && !defined(__ASSOCIATIVE_MATH__)
#define GPUACTORS_WIDE_KERNELS 1

/// Runs the loop on processors with wider vectors (AVX2) than the program was compiled for. Fused multiply-add stays
/// off, because it rounds differently: results are bit-identical, except for sums whose order the functor itself leaves
/// to the compiler (`omp simd reduction`). `flatten` inlines the functor's calls where possible, since code outside
/// this function has narrow vectors; `[[gnu::noinline]]` keeps a large helper out.
template <class Loop>
__attribute__((target("avx2"), flatten)) void run_wide(std::uint64_t begin, std::uint64_t end, const void* pack) {
  Loop::run(begin, end, pack);
}
#endif

/// Runs `Loop` in the version that suits the processor.
template <class Loop>
void run_loop(std::uint64_t begin, std::uint64_t end, const void* pack) {
#ifdef GPUACTORS_WIDE_KERNELS
  if (__builtin_cpu_supports("avx2"))
    return run_wide<Loop>(begin, end, pack);
#endif
  Loop::run(begin, end, pack);
}

template <class F>
void run_on_host(std::uint64_t begin, std::uint64_t end, const void* pack) {
  run_loop<IndexLoop<F>>(begin, end, pack);
}

} // namespace detail

/// The `Kernel` type of a functor `void operator()(std::uint64_t i, Args...) const`.
template <class F>
using KernelOf = typename detail::KernelSignature<decltype(&F::operator())>::Type;

} // namespace gpuactors

/// Declares the kernel `name` of `Functor` in a header. Namespace scope.
#define GPUACTORS_DECLARE_KERNEL(name, Functor) extern const ::gpuactors::KernelOf<Functor> name

/// Defines the kernel `name` in a .cu file that `gpuactors_add_kernels()` builds. Namespace scope.
// NOLINTBEGIN(bugprone-macro-parentheses): names cannot be in parentheses
#ifdef __CUDACC__
#define GPUACTORS_DEFINE_KERNEL(name, Functor)                                                                         \
  extern "C" __global__ void gpuactors_kernel_##name(                                                                  \
      std::uint64_t n, ::gpuactors::detail::KernelSignature<decltype(&Functor::operator())>::Pack pack) {              \
    const Functor functor{};                                                                                           \
    const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;                                                \
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride)                   \
      pack.call(functor, i);                                                                                           \
  }
#else
#define GPUACTORS_DEFINE_KERNEL(name, Functor)                                                                         \
  extern const ::gpuactors::KernelOf<Functor> name;                                                                    \
  const ::gpuactors::KernelOf<Functor> name{                                                                           \
      {#name, &::gpuactors::detail::run_on_host<Functor>, &GPUACTORS_KERNEL_IMAGE}};
#endif
// NOLINTEND(bugprone-macro-parentheses)
