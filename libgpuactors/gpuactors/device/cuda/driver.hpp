// The functions of the CUDA driver that we use, found in libcuda.so.1 at run time.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>

namespace gpuactors::cuda {

/// Our name, CUDA's name, and the CUDA version that introduced the signature we call.
#define GPUACTORS_CUDA_DRIVER_TABLE(X)                                                                                 \
  X(init, cuInit, 2000)                                                                                                \
  X(driver_get_version, cuDriverGetVersion, 2020)                                                                      \
  X(get_error_name, cuGetErrorName, 6000)                                                                              \
  X(device_get_count, cuDeviceGetCount, 2000)                                                                          \
  X(device_get, cuDeviceGet, 2000)                                                                                     \
  X(device_get_name, cuDeviceGetName, 2000)                                                                            \
  X(device_get_uuid, cuDeviceGetUuid, 11040)                                                                           \
  X(device_total_mem, cuDeviceTotalMem, 3020)                                                                          \
  X(device_get_attribute, cuDeviceGetAttribute, 2000)                                                                  \
  X(primary_ctx_retain, cuDevicePrimaryCtxRetain, 7000)                                                                \
  X(primary_ctx_release, cuDevicePrimaryCtxRelease, 11000)                                                             \
  X(ctx_get_current, cuCtxGetCurrent, 4000)                                                                            \
  X(ctx_push_current, cuCtxPushCurrent, 4000)                                                                          \
  X(ctx_pop_current, cuCtxPopCurrent, 4000)                                                                            \
  X(mem_get_info, cuMemGetInfo, 3020)                                                                                  \
  X(stream_create, cuStreamCreate, 2000)                                                                               \
  X(stream_destroy, cuStreamDestroy, 4000)                                                                             \
  X(stream_query, cuStreamQuery, 2000)                                                                                 \
  X(stream_synchronize, cuStreamSynchronize, 2000)                                                                     \
  X(stream_wait_event, cuStreamWaitEvent, 3020)                                                                        \
  X(event_create, cuEventCreate, 2000)                                                                                 \
  X(event_destroy, cuEventDestroy, 4000)                                                                               \
  X(event_record, cuEventRecord, 2000)                                                                                 \
  X(event_query, cuEventQuery, 2000)                                                                                   \
  X(event_synchronize, cuEventSynchronize, 2000)                                                                       \
  X(launch_host_func, cuLaunchHostFunc, 10000)                                                                         \
  X(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode, 10010)                                            \
  X(stream_begin_capture, cuStreamBeginCapture, 10010)                                                                 \
  X(stream_end_capture, cuStreamEndCapture, 10000)                                                                     \
  X(graph_get_nodes, cuGraphGetNodes, 10000)                                                                           \
  X(graph_instantiate, cuGraphInstantiateWithFlags, 11040)                                                             \
  X(graph_launch, cuGraphLaunch, 10000)                                                                                \
  X(graph_exec_destroy, cuGraphExecDestroy, 10000)                                                                     \
  X(graph_destroy, cuGraphDestroy, 10000)                                                                              \
  X(mem_pool_create, cuMemPoolCreate, 11020)                                                                           \
  X(mem_pool_destroy, cuMemPoolDestroy, 11020)                                                                         \
  X(mem_pool_get_attribute, cuMemPoolGetAttribute, 11020)                                                              \
  X(mem_pool_set_attribute, cuMemPoolSetAttribute, 11020)                                                              \
  X(mem_pool_trim_to, cuMemPoolTrimTo, 11020)                                                                          \
  X(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync, 11020)                                                         \
  X(mem_free_async, cuMemFreeAsync, 11020)                                                                             \
  X(mem_host_alloc, cuMemHostAlloc, 2020)                                                                              \
  X(mem_free_host, cuMemFreeHost, 2000)                                                                                \
  X(mem_get_allocation_granularity, cuMemGetAllocationGranularity, 10020)                                              \
  X(mem_create, cuMemCreate, 10020)                                                                                    \
  X(mem_release, cuMemRelease, 10020)                                                                                  \
  X(mem_address_reserve, cuMemAddressReserve, 10020)                                                                   \
  X(mem_address_free, cuMemAddressFree, 10020)                                                                         \
  X(mem_map, cuMemMap, 10020)                                                                                          \
  X(mem_unmap, cuMemUnmap, 10020)                                                                                      \
  X(mem_set_access, cuMemSetAccess, 10020)                                                                             \
  X(mem_export, cuMemExportToShareableHandle, 10020)                                                                   \
  X(mem_import, cuMemImportFromShareableHandle, 10020)                                                                 \
  X(memcpy_peer_async, cuMemcpyPeerAsync, 4000)                                                                        \
  X(memcpy_async, cuMemcpyAsync, 4000)                                                                                 \
  X(memset_d8_async, cuMemsetD8Async, 3020)                                                                            \
  X(library_load_data, cuLibraryLoadData, 12000)                                                                       \
  X(library_unload, cuLibraryUnload, 12000)                                                                            \
  X(library_get_kernel, cuLibraryGetKernel, 12000)                                                                     \
  X(kernel_get_attribute, cuKernelGetAttribute, 12000)                                                                 \
  X(kernel_set_attribute, cuKernelSetAttribute, 12000)                                                                 \
  X(launch_kernel, cuLaunchKernel, 4000)

/// Likewise, for sets of SMs. A driver from before CUDA 12.5 has not all of them.
#define GPUACTORS_CUDA_GREEN_TABLE(X)                                                                                  \
  X(device_get_dev_resource, cuDeviceGetDevResource, 12040)                                                            \
  X(dev_sm_resource_split, cuDevSmResourceSplitByCount, 12040)                                                         \
  X(dev_resource_generate_desc, cuDevResourceGenerateDesc, 12040)                                                      \
  X(green_ctx_create, cuGreenCtxCreate, 12040)                                                                         \
  X(green_ctx_destroy, cuGreenCtxDestroy, 12040)                                                                       \
  X(green_ctx_get_dev_resource, cuGreenCtxGetDevResource, 12040)                                                       \
  X(green_ctx_stream_create, cuGreenCtxStreamCreate, 12050)

/// Likewise. A driver that lacks one of them does all else.
#define GPUACTORS_CUDA_OPTIONAL_TABLE(X)                                                                               \
  X(primary_ctx_get_state, cuDevicePrimaryCtxGetState, 7000)                                                           \
  X(primary_ctx_set_flags, cuDevicePrimaryCtxSetFlags, 11000)                                                          \
  X(kernel_get_param_info, cuKernelGetParamInfo, 12040)                                                                \
  X(kernel_get_function, cuKernelGetFunction, 12000)                                                                   \
  X(func_load, cuFuncLoad, 12040)                                                                                      \
  X(library_get_kernel_count, cuLibraryGetKernelCount, 12040)                                                          \
  X(library_enumerate_kernels, cuLibraryEnumerateKernels, 12040)                                                       \
  X(ctx_from_green_ctx, cuCtxFromGreenCtx, 12040)                                                                      \
  X(device_can_access_peer, cuDeviceCanAccessPeer, 4000)                                                               \
  X(pointer_get_attribute, cuPointerGetAttribute, 4000)                                                                \
  X(mem_pool_set_access, cuMemPoolSetAccess, 11020)

/// The table. Filled once, then only read: any thread.
struct Driver {
#define GPUACTORS_CUDA_MEMBER(name, function, version) PFN_##function##_v##version name = nullptr;
  GPUACTORS_CUDA_DRIVER_TABLE(GPUACTORS_CUDA_MEMBER)
  GPUACTORS_CUDA_GREEN_TABLE(GPUACTORS_CUDA_MEMBER)
  GPUACTORS_CUDA_OPTIONAL_TABLE(GPUACTORS_CUDA_MEMBER)
#undef GPUACTORS_CUDA_MEMBER

  /// The function for sets of SMs that the driver has not; null: it has all.
  const char* missing_for_green = nullptr;

  /// As cuDriverGetVersion says, for example 13000.
  int version = 0;
};

/// Pools that keep their maximum exist since 12.2. And the libraries of a toolkit, such as cuBLAS, need a driver of the
/// same major version. So does machine code; the PTX that its compiler writes needs one of the same minor version, too,
/// and is refused (`CUDA_ERROR_UNSUPPORTED_PTX_VERSION`) where it is loaded: only where there is no machine code.
inline constexpr int least_driver_version = std::max(12020, CUDA_VERSION / 1000 * 1000);

/// The least number of SMs of a group, as the driver says; 1, which it rounds up to what it can do, where headers or
/// driver are of CUDA 12, which did not say it.
inline unsigned least_group([[maybe_unused]] const CUdevResource& sms) noexcept {
#if CUDA_VERSION >= 13000
  return std::max(1U, sms.sm.minSmPartitionSize);
#else
  return 1;
#endif
}

/// Loads the driver and calls cuInit.
/// @returns `unsupported` with one line if there is no driver, only a library to link with, or one that is too old;
///          else what cuInit reported: `device_lost` without a device, `context_lost`, and `unavailable` if the system
///          is not ready, and for all codes that say nothing else.
Result<Driver> load_driver();

} // namespace gpuactors::cuda
