// Memory pools of the fake driver.
#pragma once

#include <cuda.h>

namespace gpuactors::fake {

CUresult mem_pool_create(CUmemoryPool* pool, const CUmemPoolProps* props);
CUresult mem_pool_destroy(CUmemoryPool pool);
CUresult mem_pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
CUresult mem_pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
CUresult mem_pool_trim_to(CUmemoryPool pool, std::size_t bytes);
CUresult mem_alloc_from_pool_async(CUdeviceptr* pointer, std::size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult mem_free_async(CUdeviceptr pointer, CUstream stream);
CUresult pointer_get_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer);

/// What all pools have of the device: in chunks of 32 MiB, until they are told to give back what they do not need.
std::size_t reserved_bytes();

/// Whether the device has so much beside what pools have of it.
bool has_room(int device, std::size_t bytes);

/// Bytes from there to the end of what a pool has given out; 0: it is no pool's.
std::size_t left_of_pool(CUdeviceptr memory);

/// What was freed on a stream is there for others once that was waited for.
void pass_frees(CUstream stream);

} // namespace gpuactors::fake

extern "C" {
/// By name, as the measuring program asks for it. With FAKE_CUDA_HANG it never tells what is in use.
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
/// Whether memory that is freed stays taken for other streams until somebody waits for the one that it is freed on. The
/// real driver may do so while work is before it.
void fake_cuda_keep_frees(bool keep);
/// Whether memory that is freed is had again at once on the same stream, as at the real driver; FAKE_CUDA_REUSE says
/// what it is at first.
void fake_cuda_reuse(bool reuse);
/// How often pools were told to give back all that is not in use.
int fake_cuda_trims();
}
