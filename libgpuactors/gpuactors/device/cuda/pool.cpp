// Pools with a maximum.
#include <gpuactors/device/cuda/pool.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors::cuda {

void MemoryPool::close() noexcept {
  if (pool_ != nullptr)
    (void)primary_->driver().mem_pool_destroy(pool_);
  pool_ = nullptr;
}

Result<void> MemoryPool::open(std::uint64_t limit_bytes) {
  // Zeroed: what is reserved must be.
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = primary_->ordinal();
  props.maxSize = round_up(limit_bytes, chunk_bytes) + chunk_bytes;
  GPUACTORS_TRY(primary_->check(primary_->driver().mem_pool_create(&pool_, &props), "cuMemPoolCreate",
                                Errc::out_of_memory, fmt::format("maximum {} B", props.maxSize)));
  // Kept, not returned to the device at every synchronization: the lease holds it anyway. A chunk at least, or each
  // message of a small lease would map its only one anew.
  limit_bytes_ = limit_bytes;
  GPUACTORS_TRY(set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, std::max<std::uint64_t>(limit_bytes, chunk_bytes)));
  GPUACTORS_TRY(set_flag(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1));
  GPUACTORS_TRY(set_flag(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1));
  // No: it makes streams of one actor wait for each other where the program did not say so.
  return set_flag(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
}

void MemoryPool::keep(std::uint64_t bytes) noexcept {
  if (bytes == limit_bytes_)
    bytes = std::max<std::uint64_t>(bytes, chunk_bytes);
  // They fail only when the context is lost.
  (void)set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, bytes);
  cuuint64_t reserved = 0;
  const auto told = primary_->driver().mem_pool_get_attribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  // To 0, as the driver leaves at least what it is told to: a piece across that bound would stay as a whole.
  if (told != CUDA_SUCCESS || reserved > bytes)
    trim();
}

void MemoryPool::trim() noexcept {
  (void)primary_->driver().mem_pool_trim_to(pool_, 0);
}

Result<void> MemoryPool::set(CUmemPool_attribute attribute, std::uint64_t value) {
  cuuint64_t native = value;
  return primary_->check(primary_->driver().mem_pool_set_attribute(pool_, attribute, &native), "cuMemPoolSetAttribute");
}

Result<void> MemoryPool::set_flag(CUmemPool_attribute attribute, int value) {
  return primary_->check(primary_->driver().mem_pool_set_attribute(pool_, attribute, &value), "cuMemPoolSetAttribute");
}

Result<void*> MemoryPool::allocate(std::size_t bytes, CUstream stream) {
  CUdeviceptr pointer = 0;
  const auto result = primary_->driver().mem_alloc_from_pool_async(&pointer, bytes, pool_, stream);
  if (result != CUDA_SUCCESS)
    GPUACTORS_TRY(
        primary_->check(result, "cuMemAllocFromPoolAsync", Errc::out_of_memory, fmt::format("asked {} B", bytes)));
  return reinterpret_cast<void*>(pointer); // NOLINT(performance-no-int-to-ptr): it is how the driver spells pointers
}

void MemoryPool::free(void* pointer, CUstream stream) noexcept {
  // It fails only when the context is lost, and then the memory goes with the process.
  (void)primary_->driver().mem_free_async(reinterpret_cast<CUdeviceptr>(pointer), stream);
}

} // namespace gpuactors::cuda
