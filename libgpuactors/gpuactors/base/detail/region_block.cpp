#include "region_block.hpp"

#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace gpuactors::detail {

namespace {

constexpr std::align_val_t alignment{256};
constexpr std::size_t large = 4U << 20;

} // namespace

void FreeMemory::operator()(std::byte* data) const noexcept {
  if (mapped == 0)
    ::operator delete(data, alignment);
  else
    ::munmap(data, mapped);
}

Memory allocate(std::size_t bytes) {
  return Memory{static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), alignment, std::nothrow)), {}};
}

Memory map_pages(std::size_t capacity, int protection, int flags, int memory) {
  void* data = ::mmap(nullptr, capacity, protection, flags, memory, 0);
  if (data == MAP_FAILED)
    return nullptr;
  if (capacity >= large) // huge pages, where the system grants them on request
    ::madvise(data, capacity, MADV_HUGEPAGE);
  return Memory{static_cast<std::byte*>(data), {capacity}};
}

RegionBlock::~RegionBlock() {
  if (const auto keeper = home.lock())
    keeper->take_back(std::move(mapping), is_idle());
}

bool RegionBlock::is_idle() {
  if (!token_reader)
    return true;
  token_writer.reset();
  pollfd entry{token_reader.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1 && (static_cast<unsigned>(entry.revents) & POLLHUP) != 0;
}

} // namespace gpuactors::detail
