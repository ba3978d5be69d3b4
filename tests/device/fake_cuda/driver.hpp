// A CUDA driver and a cuBLAS that compute on the CPU: what the two fake libraries share with each other.
#pragma once

#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/block_kernel.hpp>
#include <gpuactors/device/grid_kernel.hpp>

#include <cuda.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::fake {

/// The host half of a kernel, as the fake driver runs it.
struct FakeKernel {
  /// "gpuactors_kernel_" + name
  std::string entry;
  HostKernel host;
  std::size_t pack_bytes;
  /// Of one from source: bytes of each argument.
  std::vector<std::size_t> arguments = {};
};

template <class... Args>
FakeKernel fake_kernel(const Kernel<Args...>& kernel) {
  return {std::string{"gpuactors_kernel_"} + kernel.info.name, kernel.info.host, sizeof(KernelPack<Args...>)};
}

template <class... Args>
FakeKernel fake_kernel(const BlockKernel<Args...>& kernel) {
  return {std::string{"gpuactors_kernel_"} + kernel.info.name, kernel.info.host, sizeof(detail::BlockPack<Args...>)};
}

template <class... Args>
FakeKernel fake_kernel(const GridKernel<Args...>& kernel) {
  return {std::string{"gpuactors_kernel_"} + kernel.info.name, kernel.info.host, sizeof(KernelPack<Args...>)};
}

using KernelFinder = const FakeKernel* (*)(const char* entry);

} // namespace gpuactors::fake

namespace gpuactors::fake {

/// To be told of each stream that gets work, or waits for some.
void note_more(CUstream stream);

/// What each device has.
inline constexpr std::size_t memory_bytes = std::size_t{2} << 30;

/// The one device: a host backend whose streams are the streams of the fake driver.
struct Machine {
  std::shared_ptr<Device> device;
  std::unique_ptr<Backend> backend;
  /// The CUresult that every later call fails with; 0: none.
  std::atomic<int> sticky{0};
};

Machine& machine();

/// Counts what exists, for `fake_cuda_live`.
extern std::atomic<int> live;

/// One of the kernels that the fake driver knows by itself, so that other programs than the tests' find it; null when
/// there is none.
const FakeKernel* find_source_kernel(std::string_view entry);

/// The stream as the machine knows it; never the NULL stream.
StreamHandle handle(CUstream stream);

/// Ends the process unless a context is current.
void need_context(const char* api);

/// The green context that is current on this thread; null: another one, or none.
const void* current_green();

/// The context that is current on this thread; null: none.
const void* current_context();

/// The number of the device whose context is current on this thread.
int current_device();

/// A mistake in how the driver is used: printed, and the process ends.
[[noreturn]] void misuse(const std::string& what);

} // namespace gpuactors::fake

extern "C" {
/// Contexts, streams, events, pools, allocations and cuBLAS handles that exist at the moment.
int fake_cuda_live();
/// Handles of cuBLAS so far.
int fake_cublas_created();
int fake_cublas_destroyed();
/// CUDA_DEVICE_MAX_CONNECTIONS when the driver was started; empty: not set.
const char* fake_cuda_queues();
/// Whether a context is current on this thread.
bool fake_cuda_has_current();
/// The device whose context is current on this thread; -1: none is.
int fake_cuda_current_device();
/// What events of one context answer on streams of another one, green contexts included; 0: they are recorded.
void fake_cuda_keep_events_home(int result);
/// How often events were recorded.
int fake_cuda_records();
/// Makes all later calls fail with this CUresult, as after a sticky error; 0: heals the device.
void fake_cuda_break(int result);
/// Host functions are kept until this is false again, and then called. Until then what is behind them on their stream
/// waits, but after a sticky error: the driver may call them then, late.
void fake_cuda_hold_host_functions(bool hold);
/// How many were put on that stream; null: on all.
int fake_cuda_host_functions(void* stream);
/// How much host memory may be pinned; 0: as much as there is. While there is such a bound, memory is unpinned only
/// once somebody was refused some.
void fake_cuda_limit_pinned(std::size_t bytes);
/// Keeps whoever unpins memory until this is false again.
void fake_cuda_hold_unpinning(bool hold);
/// The most host memory that was pinned at once since the last call.
std::size_t fake_cuda_most_pinned();
/// How many copies from the device have gone to ordinary memory, in which the driver waits for the stream.
int fake_cuda_waiting_copies();
/// How often the calling thread has unpinned memory.
int fake_cuda_unpinned_here();
}
