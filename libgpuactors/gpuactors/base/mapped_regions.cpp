#include <gpuactors/base/detail/region_block.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gpuactors {

using detail::Descriptor;
using detail::MemoryKey;
using detail::RegionBlock;
using detail::RegionMapping;

std::shared_ptr<MappedRegions> MappedRegions::create(std::size_t warm_bytes) {
  return std::shared_ptr<MappedRegions>{new MappedRegions{warm_bytes}};
}

MappedRegions::MappedRegions(std::size_t warm_bytes) : most_bytes_(warm_bytes) {
  // nop
}

MappedRegions::~MappedRegions() = default;

Result<SharedRegion> MappedRegions::map(Descriptor memory, Descriptor token, std::size_t bytes, std::uint64_t owner) {
  constexpr int needed = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE;
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  struct statx status {};
  if (seals < 0 || ::statx(memory.get(), "", AT_EMPTY_PATH, STATX_SIZE | STATX_INO | STATX_BTIME, &status) != 0)
    return fail(Errc::invalid_argument,
                fmt::format("what was handed over is no sealed memory: {}", detail::errno_text(errno)));
  // Without the seals, the owner could truncate the memory, and reading it would kill this process with SIGBUS.
  if ((static_cast<unsigned>(seals) & needed) != needed)
    return fail(Errc::invalid_argument,
                fmt::format("the memory can still be changed: its seals are {:#x}, without {:#x}", seals, needed));
  const std::size_t capacity = status.stx_size;
  if (capacity < bytes || capacity == 0)
    return fail(Errc::invalid_argument, fmt::format("the memory has {} bytes, not {}", capacity, bytes));
  const MemoryKey key{(std::uint64_t{status.stx_dev_major} << 32) | status.stx_dev_minor, status.stx_ino,
                      status.stx_btime.tv_sec, status.stx_btime.tv_nsec};
  auto block = std::make_shared<RegionBlock>();
  {
    const std::lock_guard lock{mutex_};
    owners_.insert(owner);
    const auto kept = std::find_if(warm_.begin(), warm_.end(),
                                   [&](const auto& item) { return item.key == key && item.capacity == capacity; });
    if (kept != warm_.end()) {
      block->mapping = std::move(*kept);
      warm_.erase(kept);
      warm_bytes_ -= block->mapping.capacity;
    }
  }
  auto& mapping = block->mapping;
  if (mapping.data == nullptr)
    mapping.data = detail::map_pages(capacity, PROT_READ, MAP_SHARED, memory.get());
  if (mapping.data == nullptr)
    return fail(Errc::out_of_memory,
                fmt::format("a region of {} bytes cannot be mapped: {}", bytes, detail::errno_text(errno)));
  mapping.kind = RegionMapping::Kind::foreign;
  mapping.capacity = capacity;
  mapping.key = key;
  mapping.owner = owner;
  block->held_token = std::move(token);
  block->size = bytes;
  block->home = weak_from_this();
  return SharedRegion{std::move(block)};
}

void MappedRegions::take_back(RegionMapping mapping, bool /*idle*/) {
  std::vector<RegionMapping> dropped; // unmapped after the lock is released
  const std::lock_guard lock{mutex_};
  const bool twice = std::any_of(warm_.begin(), warm_.end(), [&](const auto& item) { return item.key == mapping.key; });
  if (twice || owners_.count(mapping.owner) == 0) {
    dropped.push_back(std::move(mapping));
    return;
  }
  warm_bytes_ += mapping.capacity;
  warm_.push_back(std::move(mapping));
  while (warm_bytes_ > most_bytes_) {
    warm_bytes_ -= warm_.front().capacity;
    dropped.push_back(std::move(warm_.front()));
    warm_.erase(warm_.begin());
  }
}

void MappedRegions::drop(std::uint64_t owner) {
  std::vector<RegionMapping> dropped;
  const std::lock_guard lock{mutex_};
  owners_.erase(owner);
  for (auto& item : warm_)
    if (item.owner == owner) {
      warm_bytes_ -= item.capacity;
      dropped.push_back(std::move(item));
    }
  warm_.erase(std::remove_if(warm_.begin(), warm_.end(), [](const auto& item) { return item.data == nullptr; }),
              warm_.end());
}

std::size_t MappedRegions::warm_bytes() const {
  const std::lock_guard lock{mutex_};
  return warm_bytes_;
}

} // namespace gpuactors
