// Copies between devices, of the fake driver.
#pragma once

#include <cuda.h>

namespace gpuactors::fake {

CUresult device_can_access_peer(int* can, CUdevice reader, CUdevice owner);
CUresult mem_pool_set_access(CUmemoryPool pool, const CUmemAccessDesc* access, std::size_t count);
CUresult memcpy_peer_async(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, std::size_t bytes,
                           CUstream stream);

} // namespace gpuactors::fake

extern "C" {
/// Copies between devices so far.
int fake_cuda_peer_copies();
}
