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
#include <unordered_map>

namespace gpuactors::fake {

namespace {

constexpr std::size_t alignment = 256;
/// What pools take of the device at a time.
constexpr std::uint64_t chunk = std::uint64_t{32} << 20;

struct FakePool {
  std::uint64_t maximum;
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
};

std::uint64_t whole_chunks(std::uint64_t bytes) {
  return (bytes + chunk - 1) / chunk * chunk;
}

/// Gives back what is not in use and above so much.
void shrink(FakePool& pool, std::uint64_t keep) {
  pool.reserved = std::max(whole_chunks(pool.used), std::min(pool.reserved, whole_chunks(keep)));
}

void grow(FakePool& pool, std::uint64_t bytes) {
  pool.used += bytes;
  pool.reserved = std::max(pool.reserved, whole_chunks(pool.used));
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

} // namespace

CUresult mem_pool_create(CUmemoryPool* pool, const CUmemPoolProps* props) {
  need_context("cuMemPoolCreate");
  if (const auto result = planned("cuMemPoolCreate"); result != CUDA_SUCCESS)
    return result;
  for (auto byte : props->reserved)
    if (byte != 0)
      misuse("the reserved part of CUmemPoolProps is not zero");
  auto* made = new FakePool{props->maxSize};
  const std::lock_guard guard{memory().mutex};
  memory().pools.insert(made);
  *pool = reinterpret_cast<CUmemoryPool>(made);
  ++live;
  return CUDA_SUCCESS;
}

CUresult mem_pool_destroy(CUmemoryPool pool) {
  auto* fake = reinterpret_cast<FakePool*>(pool);
  const std::lock_guard guard{memory().mutex};
  if (fake->used != 0)
    misuse("a pool was destroyed that still has allocations");
  memory().pools.erase(fake);
  delete fake;
  --live;
  return CUDA_SUCCESS;
}

CUresult mem_pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  auto& fake = *reinterpret_cast<FakePool*>(pool);
  const std::lock_guard guard{memory().mutex};
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
  if (pool == nullptr)
    misuse("cuMemPoolTrimTo of no pool");
  const std::lock_guard guard{memory().mutex};
  memory().trims += bytes == 0 ? 1 : 0;
  shrink(*reinterpret_cast<FakePool*>(pool), bytes);
  return CUDA_SUCCESS;
}

CUresult mem_alloc_from_pool_async(CUdeviceptr* pointer, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  need_context("cuMemAllocFromPoolAsync");
  need_no_capture(stream, "cuMemAllocFromPoolAsync");
  (void)handle(stream);
  if (const auto sticky = machine().sticky.load(); sticky != 0)
    return static_cast<CUresult>(sticky);
  auto* fake = reinterpret_cast<FakePool*>(pool);
  const std::lock_guard guard{memory().mutex};
  // What was freed on the same stream is there for it at once.
  const auto own = fake->kept.find(stream);
  const auto taken = fake->used - (own != fake->kept.end() ? own->second : 0);
  if (taken > fake->maximum || bytes > fake->maximum - taken)
    return CUDA_ERROR_OUT_OF_MEMORY;
  void* made = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (made == nullptr)
    return CUDA_ERROR_OUT_OF_MEMORY;
  grow(*fake, bytes);
  *pointer = reinterpret_cast<CUdeviceptr>(made);
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
  }
  (void)machine().backend->launch({"free", &free_memory, nullptr}, {}, &freed, sizeof(freed), handle(stream));
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

std::size_t reserved_bytes() {
  const std::lock_guard guard{memory().mutex};
  std::size_t bytes = 0;
  for (const auto* pool : memory().pools)
    bytes += pool->reserved;
  return bytes;
}

bool is_of_pool(CUdeviceptr pointer) {
  const std::lock_guard guard{memory().mutex};
  const auto& all = memory().allocations;
  return std::any_of(all.begin(), all.end(), [pointer](const auto& known) {
    return known.first <= pointer && pointer < known.first + known.second.bytes;
  });
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
  const std::lock_guard guard{memory().mutex};
  const auto& fake = *reinterpret_cast<FakePool*>(pool);
  *static_cast<cuuint64_t*>(value) = attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT       ? fake.used
                                     : attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH        ? fake.most_used
                                     : attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? fake.reserved
                                     : attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH    ? fake.most_reserved
                                                                                         : fake.threshold;
  return CUDA_SUCCESS;
}

void fake_cuda_keep_frees(bool keep) {
  using gpuactors::fake::memory;
  const std::lock_guard guard{memory().mutex};
  memory().keeps_frees = keep;
}

int fake_cuda_trims() {
  using gpuactors::fake::memory;
  const std::lock_guard guard{memory().mutex};
  return memory().trims;
}
