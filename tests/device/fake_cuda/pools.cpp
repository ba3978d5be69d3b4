// Pools with a maximum, and freeing in stream order.
#include <device/fake_cuda/driver.hpp>
#include <device/fake_cuda/graphs.hpp>
#include <device/fake_cuda/green.hpp>
#include <device/fake_cuda/pools.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpuactors::fake {

namespace {

constexpr std::size_t alignment = 256;
/// What pools take of the device at a time.
constexpr std::uint64_t chunk = std::uint64_t{32} << 20;

struct FakePool {
  std::uint64_t maximum;
  int device = 0;
  /// With what was freed and is kept.
  std::uint64_t used = 0;
  std::uint64_t most_used = 0;
  /// What it has of the device: whole chunks.
  std::uint64_t reserved = 0;
  std::uint64_t most_reserved = 0;
  /// How much of that it keeps when somebody waits for a stream.
  std::uint64_t threshold = 0;
  /// Freed, but not there for other streams yet.
  std::map<CUstream, std::uint64_t> kept = {};
  /// Freed, and there at once for the same stream, though work may be before it there.
  std::map<std::pair<CUstream, std::size_t>, std::vector<CUdeviceptr>> reusable = {};
};

std::uint64_t whole_chunks(std::uint64_t bytes) {
  return (bytes + chunk - 1) / chunk * chunk;
}

/// Gives back what is not in use until no more than so much is left: a chunk that goes across that bound, too.
void shrink(FakePool& pool, std::uint64_t keep) {
  pool.reserved = std::max(whole_chunks(pool.used), std::min(pool.reserved, keep / chunk * chunk));
}

/// With so much more in use.
std::uint64_t reserved_with(const FakePool& pool, std::uint64_t bytes) {
  return std::max(pool.reserved, whole_chunks(pool.used + bytes));
}

void grow(FakePool& pool, std::uint64_t bytes) {
  pool.reserved = reserved_with(pool, bytes);
  pool.used += bytes;
  pool.most_used = std::max(pool.most_used, pool.used);
  pool.most_reserved = std::max(pool.most_reserved, pool.reserved);
}

struct FakeAllocation {
  FakePool* pool;
  std::uint64_t bytes;
};

struct Memory {
  std::mutex mutex;
  std::set<FakePool*> pools;
  std::unordered_map<CUdeviceptr, FakeAllocation> allocations;
  bool keeps_frees = false;
  bool reuses = std::getenv("FAKE_CUDA_REUSE") != nullptr;
  int trims = 0;
};

Memory& memory() {
  static auto* one = new Memory;
  return *one;
}

/// Memory that is freed, and what of it is overwritten first, so that who still reads it notices.
struct Freed {
  void* pointer;
  std::size_t bytes;
};

void free_memory(std::uint64_t, std::uint64_t, const void* pack) {
  const auto* freed = static_cast<const Freed*>(pack);
  std::memset(freed->pointer, 0xdd, freed->bytes);
  std::free(freed->pointer);
}

void overwrite_memory(std::uint64_t, std::uint64_t, const void* pack) {
  const auto* freed = static_cast<const Freed*>(pack);
  std::memset(freed->pointer, 0xdd, freed->bytes);
}

/// What pools have of that device. The mutex is held.
std::uint64_t reserved_of(int device) {
  std::uint64_t bytes = 0;
  for (const auto* pool : memory().pools)
    bytes += pool->device == device ? pool->reserved : 0;
  return bytes;
}

/// Memory of that size that was freed on the same stream; 0: none. The mutex is held.
CUdeviceptr take_reusable(FakePool& pool, std::size_t bytes, CUstream stream) {
  const auto found = pool.reusable.find({stream, bytes});
  if (found == pool.reusable.end() || found->second.empty())
    return 0;
  const auto pointer = found->second.back();
  found->second.pop_back();
  return pointer;
}

/// The mutex is held.
void need_pool(FakePool* pool, const char* api) {
  if (!memory().pools.contains(pool))
    misuse(std::string{api} + " of no pool");
}

} // namespace

CUresult mem_pool_create(CUmemoryPool* pool, const CUmemPoolProps* props) {
  need_context("cuMemPoolCreate");
  if (const auto result = planned("cuMemPoolCreate"); result != CUDA_SUCCESS)
    return result;
  for (auto byte : props->reserved)
    if (byte != 0)
      misuse("the reserved part of CUmemPoolProps is not zero");
  if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE
      || props->handleTypes != CU_MEM_HANDLE_TYPE_NONE || props->maxSize == 0)
    misuse("a pool that is not of pinned memory of a device, or that has no maximum");
  auto* made = new FakePool{props->maxSize, props->location.id};
  const std::lock_guard guard{memory().mutex};
  memory().pools.insert(made);
  *pool = reinterpret_cast<CUmemoryPool>(made);
  ++live;
  return CUDA_SUCCESS;
}

CUresult mem_pool_destroy(CUmemoryPool pool) {
  auto* fake = reinterpret_cast<FakePool*>(pool);
  const std::lock_guard guard{memory().mutex};
  need_pool(fake, "cuMemPoolDestroy");
  if (fake->used != 0)
    misuse("a pool was destroyed that still has allocations");
  memory().pools.erase(fake);
  for (const auto& [where, pointers] : fake->reusable)
    for (auto pointer : pointers)
      std::free(reinterpret_cast<void*>(pointer));
  delete fake;
  --live;
  return CUDA_SUCCESS;
}

CUresult mem_pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  const std::lock_guard guard{memory().mutex};
  const auto& fake = *reinterpret_cast<FakePool*>(pool);
  need_pool(reinterpret_cast<FakePool*>(pool), "cuMemPoolGetAttribute");
  *static_cast<cuuint64_t*>(value) = attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT       ? fake.used
                                     : attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH        ? fake.most_used
                                     : attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? fake.reserved
                                     : attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH    ? fake.most_reserved
                                                                                         : fake.threshold;
  return CUDA_SUCCESS;
}

CUresult mem_pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  auto& fake = *reinterpret_cast<FakePool*>(pool);
  const std::lock_guard guard{memory().mutex};
  need_pool(&fake, "cuMemPoolSetAttribute");
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    fake.threshold = *static_cast<cuuint64_t*>(value);
  else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
    fake.most_reserved = fake.reserved;
  else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    fake.most_used = fake.used;
  return CUDA_SUCCESS;
}

CUresult mem_pool_trim_to(CUmemoryPool pool, std::size_t bytes) {
  need_context("cuMemPoolTrimTo");
  const std::lock_guard guard{memory().mutex};
  need_pool(reinterpret_cast<FakePool*>(pool), "cuMemPoolTrimTo");
  // The driver leaves at least what it is told to, and gives back whole pieces: none, if a piece goes across that
  // bound.
  if (bytes > 0)
    return CUDA_SUCCESS;
  ++memory().trims;
  shrink(*reinterpret_cast<FakePool*>(pool), 0);
  return CUDA_SUCCESS;
}

CUresult mem_alloc_from_pool_async(CUdeviceptr* pointer, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  need_context("cuMemAllocFromPoolAsync");
  need_no_capture(stream, "cuMemAllocFromPoolAsync");
  (void)handle(stream);
  if (const auto sticky = machine().sticky.load(); sticky != 0)
    return static_cast<CUresult>(sticky);
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto* fake = reinterpret_cast<FakePool*>(pool);
  const std::lock_guard guard{memory().mutex};
  need_pool(fake, "cuMemAllocFromPoolAsync");
  // What was freed on the same stream is there for it at once.
  const auto own = fake->kept.find(stream);
  const auto taken = fake->used - (own != fake->kept.end() ? own->second : 0);
  if (taken > fake->maximum || bytes > fake->maximum - taken)
    return CUDA_ERROR_OUT_OF_MEMORY;
  // And the device has only so much for all pools.
  if (reserved_of(fake->device) - fake->reserved + reserved_with(*fake, bytes) > memory_bytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = take_reusable(*fake, bytes, stream);
  if (*pointer == 0)
    *pointer =
        reinterpret_cast<CUdeviceptr>(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
  if (*pointer == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  grow(*fake, bytes);
  memory().allocations[*pointer] = {fake, bytes};
  ++live;
  return CUDA_SUCCESS;
}

/// In the order of that stream and of no other, as the real driver does it.
CUresult mem_free_async(CUdeviceptr pointer, CUstream stream) {
  need_context("cuMemFreeAsync");
  need_no_capture(stream, "cuMemFreeAsync");
  note_more(stream);
  Freed freed{reinterpret_cast<void*>(pointer), 0};
  {
    const std::lock_guard guard{memory().mutex};
    const auto found = memory().allocations.find(pointer);
    if (found == memory().allocations.end())
      misuse("memory was freed that is not allocated");
    const auto [pool, bytes] = found->second;
    freed.bytes = std::min<std::size_t>(bytes, 4096);
    if (memory().keeps_frees)
      pool->kept[stream] += bytes;
    else
      pool->used -= bytes;
    memory().allocations.erase(found);
    if (memory().reuses)
      pool->reusable[{stream, bytes}].push_back(pointer);
  }
  (void)machine().backend->launch({"free", memory().reuses ? &overwrite_memory : &free_memory, nullptr}, {}, &freed,
                                  sizeof(freed), handle(stream));
  --live;
  return CUDA_SUCCESS;
}

CUresult pointer_get_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  need_context("cuPointerGetAttribute");
  const std::lock_guard guard{memory().mutex};
  const auto found = memory().allocations.find(pointer);
  if (attribute != CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
    return CUDA_ERROR_INVALID_VALUE;
  // Memory of no pool is no error.
  *static_cast<CUmemoryPool*>(value) =
      found != memory().allocations.end() ? reinterpret_cast<CUmemoryPool>(found->second.pool) : nullptr;
  return CUDA_SUCCESS;
}

bool has_room(int device, std::size_t bytes) {
  const std::lock_guard guard{memory().mutex};
  return reserved_of(device) + bytes <= memory_bytes;
}

std::size_t reserved_bytes() {
  const std::lock_guard guard{memory().mutex};
  std::size_t bytes = 0;
  for (const auto* pool : memory().pools)
    bytes += pool->reserved;
  return bytes;
}

std::size_t left_of_pool(CUdeviceptr pointer) {
  const std::lock_guard guard{memory().mutex};
  for (const auto& [begin, allocation] : memory().allocations)
    if (begin <= pointer && pointer < begin + allocation.bytes)
      return begin + allocation.bytes - pointer;
  return 0;
}

void pass_frees(CUstream stream) {
  const std::lock_guard guard{memory().mutex};
  for (auto* pool : memory().pools) {
    if (const auto kept = pool->kept.extract(stream); !kept.empty())
      pool->used -= kept.mapped();
    shrink(*pool, pool->threshold);
  }
}

} // namespace gpuactors::fake

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  using namespace gpuactors::fake;
  while (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT && std::getenv("FAKE_CUDA_HANG") != nullptr)
    pause();
  return mem_pool_get_attribute(pool, attribute, value);
}

void fake_cuda_keep_frees(bool keep) {
  using gpuactors::fake::memory;
  const std::lock_guard guard{memory().mutex};
  memory().keeps_frees = keep;
}

void fake_cuda_reuse(bool reuse) {
  using gpuactors::fake::memory;
  const std::lock_guard guard{memory().mutex};
  memory().reuses = reuse;
}

int fake_cuda_trims() {
  using gpuactors::fake::memory;
  const std::lock_guard guard{memory().mutex};
  return memory().trims;
}
