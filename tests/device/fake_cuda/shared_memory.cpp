// Blocks, addresses and mappings, and what each of them must not be given.
#include <device/fake_cuda/driver.hpp>
#include <device/fake_cuda/green.hpp>
#include <device/fake_cuda/pools.hpp>
#include <device/fake_cuda/shared_memory.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

namespace gpuactors::fake {

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;

struct Range {
  std::size_t size = 0;
  bool mapped = false;
};

struct SharedBlocks {
  std::mutex mutex;
  /// A handle is the number of a file of this process.
  std::map<CUmemGenericAllocationHandle, std::size_t> blocks;
  std::map<CUdeviceptr, Range> ranges;
  int imports = 0;
};

SharedBlocks& shared_blocks() {
  static auto* one = new SharedBlocks;
  return *one;
}

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

Range& range_at(CUdeviceptr address, std::size_t size, const char* api) {
  const auto found = shared_blocks().ranges.find(address);
  if (found == shared_blocks().ranges.end() || found->second.size != size)
    misuse(std::string{api} + ": no such range of addresses");
  return found->second;
}

CUmemGenericAllocationHandle add(int file, std::size_t size) {
  const std::lock_guard guard{shared_blocks().mutex};
  const auto block = static_cast<CUmemGenericAllocationHandle>(file);
  shared_blocks().blocks[block] = size;
  ++live;
  return block;
}

} // namespace

bool is_shared(CUdeviceptr memory) {
  auto& shared = shared_blocks();
  const std::lock_guard guard{shared.mutex};
  return std::any_of(shared.ranges.begin(), shared.ranges.end(), [memory](const auto& known) {
    return known.first <= memory && memory < known.first + known.second.size;
  });
}

CUresult mem_get_allocation_granularity(std::size_t* unit, const CUmemAllocationProp*,
                                        CUmemAllocationGranularity_flags) {
  *unit = granularity;
  return CUDA_SUCCESS;
}

CUresult mem_create(CUmemGenericAllocationHandle* block, std::size_t size, const CUmemAllocationProp* wanted,
                    unsigned long long) {
  if (const auto planned_result = planned("cuMemCreate"); planned_result != CUDA_SUCCESS)
    return planned_result;
  if (size == 0 || size % granularity != 0 || wanted->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    misuse("cuMemCreate with a size that is no multiple of its unit, or for no descriptor");
  if (!has_room(wanted->location.id, size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const int file = ::memfd_create("fake_cuda", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *block = add(file, size);
  return CUDA_SUCCESS;
}

CUresult mem_release(CUmemGenericAllocationHandle block) {
  const std::lock_guard guard{shared_blocks().mutex};
  if (shared_blocks().blocks.erase(block) == 0)
    misuse("cuMemRelease of no block");
  ::close(static_cast<int>(block));
  --live;
  return CUDA_SUCCESS;
}

CUresult mem_address_reserve(CUdeviceptr* address, std::size_t size, std::size_t, CUdeviceptr, unsigned long long) {
  auto* const range = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(range);
  const std::lock_guard guard{shared_blocks().mutex};
  shared_blocks().ranges[*address] = Range{size, false};
  ++live;
  return CUDA_SUCCESS;
}

CUresult mem_address_free(CUdeviceptr address, std::size_t size) {
  const std::lock_guard guard{shared_blocks().mutex};
  if (range_at(address, size, "cuMemAddressFree").mapped)
    misuse("cuMemAddressFree of what is mapped");
  ::munmap(pointer(address), size);
  shared_blocks().ranges.erase(address);
  --live;
  return CUDA_SUCCESS;
}

CUresult mem_map(CUdeviceptr address, std::size_t size, std::size_t, CUmemGenericAllocationHandle block,
                 unsigned long long) {
  const std::lock_guard guard{shared_blocks().mutex};
  auto& range = range_at(address, size, "cuMemMap");
  const auto found = shared_blocks().blocks.find(block);
  if (range.mapped || found == shared_blocks().blocks.end())
    misuse("cuMemMap of no block, or where something is mapped");
  if (size > found->second)
    return CUDA_ERROR_INVALID_VALUE;
  if (::mmap(pointer(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(block), 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  range.mapped = true;
  ++live;
  return CUDA_SUCCESS;
}

CUresult mem_unmap(CUdeviceptr address, std::size_t size) {
  const std::lock_guard guard{shared_blocks().mutex};
  auto& range = range_at(address, size, "cuMemUnmap");
  if (!range.mapped)
    misuse("cuMemUnmap of what is not mapped");
  range.mapped = false;
  // Whoever reads it now ends the process.
  (void)::mmap(pointer(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  --live;
  return CUDA_SUCCESS;
}

CUresult mem_set_access(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access, std::size_t count) {
  // A driver may know no memory that can only be read.
  if (const auto result = planned("cuMemSetAccess");
      result != CUDA_SUCCESS && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
    return result;
  const std::lock_guard guard{shared_blocks().mutex};
  if (!range_at(address, size, "cuMemSetAccess").mapped || count != 1)
    misuse("cuMemSetAccess of what is not mapped");
  const bool writes = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ::mprotect(pointer(address), size, writes ? PROT_READ | PROT_WRITE : PROT_READ);
  return CUDA_SUCCESS;
}

CUresult mem_export(void* descriptor, CUmemGenericAllocationHandle block, CUmemAllocationHandleType type,
                    unsigned long long) {
  const std::lock_guard guard{shared_blocks().mutex};
  if (shared_blocks().blocks.count(block) == 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    misuse("cuMemExportToShareableHandle of no block");
  const int made = ::fcntl(static_cast<int>(block), F_DUPFD_CLOEXEC, 0);
  if (made < 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(descriptor) = made;
  return CUDA_SUCCESS;
}

CUresult mem_import(CUmemGenericAllocationHandle* block, void* descriptor, CUmemAllocationHandleType) {
  if (const auto planned_result = planned("cuMemImportFromShareableHandle"); planned_result != CUDA_SUCCESS)
    return planned_result;
  const int file = ::fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)), F_DUPFD_CLOEXEC, 0);
  struct stat about {};
  if (file < 0 || ::fstat(file, &about) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *block = add(file, static_cast<std::size_t>(about.st_size));
  const std::lock_guard guard{shared_blocks().mutex};
  ++shared_blocks().imports;
  return CUDA_SUCCESS;
}

} // namespace gpuactors::fake

int fake_cuda_imports() {
  const std::lock_guard guard{gpuactors::fake::shared_blocks().mutex};
  return gpuactors::fake::shared_blocks().imports;
}
