// Memory that processes share, of the fake driver: files without a name, which the kernel counts as the real driver
// does blocks.
#pragma once

#include <cuda.h>

namespace gpuactors::fake {

CUresult mem_get_allocation_granularity(std::size_t* unit, const CUmemAllocationProp* wanted,
                                        CUmemAllocationGranularity_flags kind);
CUresult mem_create(CUmemGenericAllocationHandle* block, std::size_t size, const CUmemAllocationProp* wanted,
                    unsigned long long flags);
CUresult mem_release(CUmemGenericAllocationHandle block);
CUresult mem_address_reserve(CUdeviceptr* address, std::size_t size, std::size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags);
CUresult mem_address_free(CUdeviceptr address, std::size_t size);
CUresult mem_map(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle block,
                 unsigned long long flags);
CUresult mem_unmap(CUdeviceptr address, std::size_t size);
CUresult mem_set_access(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access, std::size_t count);
CUresult mem_export(void* descriptor, CUmemGenericAllocationHandle block, CUmemAllocationHandleType type,
                    unsigned long long flags);
CUresult mem_import(CUmemGenericAllocationHandle* block, void* descriptor, CUmemAllocationHandleType type);

/// Bytes from there to the end of what is mapped of memory that processes share; 0: it is none.
std::size_t left_of_shared(CUdeviceptr memory);

} // namespace gpuactors::fake

extern "C" {
/// Blocks of other processes, or other parts of this one, that were opened so far.
int fake_cuda_imports();
}
