// Code of kernels in the fake driver: what is loaded, for which context, and what others wait for meanwhile.
#pragma once

#include <device/fake_cuda/driver.hpp>

namespace gpuactors::fake {

CUresult library_load_data(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned);
CUresult library_unload(CUlibrary library);
CUresult library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name);
CUresult library_get_kernel_count(unsigned* count, CUlibrary library);
CUresult library_enumerate_kernels(CUkernel* kernels, unsigned count, CUlibrary library);
CUresult kernel_get_function(CUfunction* function, CUkernel kernel);
CUresult func_load(CUfunction function);
CUresult kernel_get_attribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device);
CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device);

/// A kernel of a library that was loaded, or is. Its address is the driver's handle.
struct LoadedKernel;

/// The kernel that a handle is for. Ends the process if there is none, or its library is gone.
const LoadedKernel* find_kernel(CUkernel handle, const char* api);
const FakeKernel& about(const LoadedKernel* kernel);

/// Ends the process if its library is gone.
void need_loaded(const LoadedKernel* kernel, const char* api);

/// What blocks may have of shared memory at most: as on Hopper.
inline constexpr int most_shared_bytes = 227 << 10;

/// Whether blocks of the kernel may have that much dynamic shared memory.
bool may_have_shared(const LoadedKernel* kernel, unsigned bytes);

/// Loads what is launched on `stream`, unless the stream's context has it.
void load_for_launch(const LoadedKernel* kernel, CUstream stream);

/// Waits for who loads or unloads code: the real driver holds a lock of the primary context meanwhile, and the other
/// calls of the device take it too.
void pass_loading();

/// To be told of each stream of a primary context, and of the number of the device of each stream.
void remember_context_of_stream(CUstream stream, const void* context);
void remember_device_of_stream(CUstream stream, int device);

/// Ends the process if the stream is of another device than the context that is current: the real driver refuses to
/// launch there, and takes events only from streams of their own.
void need_own_stream(CUstream stream, const char* api);

/// To be told of each stream that has work, of each that goes, and of each green context that goes.
void remember_stream(CUstream stream);
void forget_code_of_stream(CUstream stream);
void forget_code_of_context(const void* context);

} // namespace gpuactors::fake

extern "C" {
/// Kernels of the program under test: the real driver finds them in their image.
void fake_cuda_set_kernels(gpuactors::fake::KernelFinder finder);
/// A handle for a kernel that is in no library: as if one had it that is never unloaded.
void* fake_cuda_kernel(const gpuactors::fake::FakeKernel* kernel);
/// Kernels from source, and images, that are loaded at the moment.
int fake_cuda_libraries();
/// How often a launch was the first of a kernel whose context did not have its code yet.
int fake_cuda_loading_launches();
}
