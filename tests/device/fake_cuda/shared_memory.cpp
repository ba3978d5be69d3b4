// Blocks, addresses and mappings, and what each of them must not be given.
#include <device/fake_cuda/driver.hpp>
#include <device/fake_cuda/green.hpp>
#include <device/fake_cuda/pools.hpp>
#include <device/fake_cuda/shared_memory.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

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

void need_kind(const CUmemAllocationProp& wanted, const char* api) {
  if (wanted.type != CU_MEM_ALLOCATION_TYPE_PINNED || wanted.location.type != CU_MEM_LOCATION_TYPE_DEVICE
      || wanted.requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    misuse(std::string{api} + " of what is no pinned memory of a device with a descriptor");
}

} // namespace

std::size_t left_of_shared(CUdeviceptr memory) {
  const std::lock_guard guard{shared_blocks().mutex};
  for (const auto& [begin, range] : shared_blocks().ranges)
    if (begin <= memory && memory < begin + range.size) {
      if (!range.mapped)
        misuse("memory was used that is not mapped");
      return begin + range.size - memory;
    }
  return 0;
}

CUresult mem_get_allocation_granularity(std::size_t* unit, const CUmemAllocationProp* wanted,
                                        CUmemAllocationGranularity_flags) {
  need_kind(*wanted, "cuMemGetAllocationGranularity");
  *unit = granularity;
  return CUDA_SUCCESS;
}

CUresult mem_create(CUmemGenericAllocationHandle* block, std::size_t size, const CUmemAllocationProp* wanted,
                    unsigned long long) {
  if (const auto planned_result = planned("cuMemCreate"); planned_result != CUDA_SUCCESS)
    return planned_result;
  need_kind(*wanted, "cuMemCreate");
  if (size == 0 || size % granularity != 0)
    misuse("cuMemCreate with a size that is no multiple of its unit");
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

CUresult mem_address_reserve(CUdeviceptr* address, std::size_t size, std::size_t alignment, CUdeviceptr,
                             unsigned long long) {
  if (size == 0 || size % granularity != 0 || (alignment & (alignment - 1)) != 0)
    misuse("cuMemAddressReserve of no whole units, or at a multiple of what is no power of two");
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

CUresult mem_map(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle block,
                 unsigned long long) {
  if (offset != 0)
    misuse("cuMemMap of less than a whole block");
  const std::lock_guard guard{shared_blocks().mutex};
  auto& range = range_at(address, size, "cuMemMap");
  const auto found = shared_blocks().blocks.find(block);
  if (range.mapped || found == shared_blocks().blocks.end())
    misuse("cuMemMap of no block, or where something is mapped");
  if (size % granularity != 0 || size > found->second)
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
  if (!range_at(address, size, "cuMemSetAccess").mapped || count != 1
      || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    misuse("cuMemSetAccess of what is not mapped, or for no device");
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

CUresult mem_import(CUmemGenericAllocationHandle* block, void* descriptor, CUmemAllocationHandleType type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    misuse("cuMemImportFromShareableHandle of no descriptor");
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
