// Devices of the fake driver share one memory: a copy between them is one within it, and there is no link to open.
#include <device/fake_cuda/driver.hpp>
#include <device/fake_cuda/peers.hpp>

namespace gpuactors::fake {

namespace {

std::atomic<int> peer_copies{0};

} // namespace

CUresult device_can_access_peer(int* can, CUdevice, CUdevice) {
  *can = 1;
  return CUDA_SUCCESS;
}

CUresult mem_pool_set_access(CUmemoryPool pool, const CUmemAccessDesc* access, std::size_t count) {
  need_context("cuMemPoolSetAccess");
  if (pool == nullptr || count != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    misuse("cuMemPoolSetAccess of no pool, or for no device");
  return CUDA_SUCCESS;
}

CUresult memcpy_peer_async(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, std::size_t bytes,
                           CUstream stream) {
  need_context("cuMemcpyPeerAsync");
  if (to == nullptr || from == nullptr || stream == nullptr)
    misuse("cuMemcpyPeerAsync without a context, or on the NULL stream");
  ++peer_copies;
  note_more(stream);
  const auto copied = machine().backend->copy(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source),
                                              bytes, CopyKind::device_to_device, StreamHandle{stream});
  return copied ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

} // namespace gpuactors::fake

int fake_cuda_peer_copies() {
  return gpuactors::fake::peer_copies;
}
