// Grid kernels: device code of CUDA with a grid, blocks and shared memory of its own, compiled with the program. The
// way for kernels that exist already, or that need what only CUDA has: tensor cores, asynchronous copies, warps. Block
// kernels (block_kernel.hpp) run on both kinds of device; `Context::compile` takes kernels as text.
//
//   // scale.hpp
//   GPUACTORS_DECLARE_GRID_KERNEL(scale, float*, float, unsigned);
//
//   // scale.cu, built by gpuactors_add_kernels(); a __global__ function becomes a __device__ one
//   #ifdef __CUDACC__
//   __device__ void scale_on_device(float* x, float by, unsigned n) {
//     const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//     if (i < n)
//       x[i] *= by;
//   }
//   #endif
//   GPUACTORS_DEFINE_GRID_KERNEL(scale, scale_on_device, nullptr, __launch_bounds__(256))
//
//   // anywhere
//   stream.launch(scale, gpuactors::LaunchShape{{blocks, 1, 1}, {256, 1, 1}}, x, 2.0F, n);
//
// In the place of `nullptr`, a function with the same parameters makes the kernel run on host devices too: it is called
// once for a launch and does the work of the whole grid.
#pragma once

#include <gpuactors/device/kernel.hpp>

#include <cstddef>

namespace gpuactors {

/// A grid kernel that takes `Args`. Define it with `GPUACTORS_DEFINE_GRID_KERNEL`.
template <class... Args>
struct GridKernel {
  using Pack = KernelPack<Args...>;
  static_assert((std::is_trivially_copyable_v<Args> && ...), "kernel arguments are copied as bytes");
  static_assert(((alignof(Args) <= alignof(std::max_align_t)) && ...),
                "kernel arguments are kept as bytes of any type");

  KernelInfo info;
};

namespace detail {

/// Calls `Function` with the arguments alone; grid kernels have no index.
template <auto Function>
struct WithoutIndex {
  template <class... Args>
  void operator()(std::uint64_t, Args... args) const {
    Function(args...);
  }
};

template <class Pack, auto Function>
void run_grid_on_host(std::uint64_t begin, std::uint64_t, const void* pack) {
  static_cast<const Pack*>(pack)->call(WithoutIndex<Function>{}, begin);
}

/// Returns the function that host devices call for a grid kernel; null if there is none.
template <class Pack, auto Function>
constexpr HostKernel grid_on_host() {
  if constexpr (std::is_null_pointer_v<decltype(Function)>)
    return nullptr;
  else
    return &run_grid_on_host<Pack, Function>;
}

} // namespace detail

} // namespace gpuactors

/// Declares the grid kernel `name` with the types of its parameters in a header. Namespace scope.
#define GPUACTORS_DECLARE_GRID_KERNEL(name, ...) extern const ::gpuactors::GridKernel<__VA_ARGS__> name

/// Defines the grid kernel `name`, which is declared before, in a .cu file that `gpuactors_add_kernels()` builds: the
/// `__device__` function that each thread calls, the function for host devices or `nullptr`, and attributes of the
/// kernel such as `__launch_bounds__(256)`, or nothing. Namespace scope.
// NOLINTBEGIN(bugprone-macro-parentheses): names cannot be in parentheses
#ifdef __CUDACC__
#define GPUACTORS_DEFINE_GRID_KERNEL(name, on_device, on_host, ...)                                                    \
  extern "C" __global__ void __VA_ARGS__ gpuactors_kernel_##name(std::uint64_t, decltype(name)::Pack pack) {           \
    pack.call([](std::uint64_t, auto... args) { on_device(args...); }, 0);                                             \
  }
#else
#define GPUACTORS_DEFINE_GRID_KERNEL(name, on_device, on_host, ...)                                                    \
  const decltype(name) name{                                                                                           \
      {#name, ::gpuactors::detail::grid_on_host<decltype(name)::Pack, on_host>(), &GPUACTORS_KERNEL_IMAGE}};
#endif
// NOLINTEND(bugprone-macro-parentheses)
