#include <gpuactors/base/detail/region_block.hpp>
#include <gpuactors/base/units.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpuactors {

namespace {

using detail::Descriptor;
using detail::map_pages;
using detail::RegionMapping;

constexpr std::size_t huge_page = 2U << 20;

std::size_t round_to(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Returns the capacity to allocate for `bytes`: whole pages, and whole huge pages for large regions, so that regions
/// of similar size can reuse each other's memory.
std::size_t capacity_for(std::size_t bytes) {
  return round_to(bytes, bytes >= 8 * huge_page ? huge_page : static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

RegionMapping make_heap(std::size_t bytes) {
  RegionMapping result;
  result.data = detail::allocate(bytes);
  result.capacity = bytes;
  return result;
}

RegionMapping make_pages(std::size_t bytes) {
  RegionMapping result;
  result.kind = RegionMapping::Kind::pages;
  result.capacity = capacity_for(bytes);
  result.data = map_pages(result.capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  return result;
}

/// Fills a fresh file. This is cheaper than writing through its mapping, where the kernel first zeroes each page.
bool write_file(int file, const void* source, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(source);
  for (std::size_t done = 0; done < bytes;) {
    const auto written = ::pwrite(file, from + done, bytes - done, static_cast<off_t>(done));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

/// Enters all existing pages into the page table in one call: faulting them in one by one takes longer than filling
/// them.
void populate(RegionMapping& mapping) {
#ifdef MADV_POPULATE_WRITE // since Linux 5.14; older kernels map the pages on first use
  if (!mapping.populated)
    ::madvise(mapping.data.get(), mapping.capacity, MADV_POPULATE_WRITE);
#endif
  mapping.populated = true;
}

} // namespace

// -- SharedRegion ---------------------------------------------------------------------------------

const std::byte* SharedRegion::data() const noexcept {
  return block_ == nullptr ? nullptr : block_->mapping.data.get();
}

std::size_t SharedRegion::size() const noexcept {
  return block_ == nullptr ? 0 : block_->size;
}

bool SharedRegion::is_mappable() const noexcept {
  return block_ != nullptr && block_->mapping.kind == RegionMapping::Kind::shared && block_->mapping.memory;
}

Result<RegionDescriptors> SharedRegion::descriptors() const {
  if (!is_mappable())
    return fail(Errc::unsupported, fmt::format("a region of {} bytes in ordinary memory cannot be mapped", size()));
  const std::lock_guard lock{block_->mutex};
  if (!block_->token_writer) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return fail(Errc::unavailable, fmt::format("a region cannot be handed out: {}", detail::errno_text(errno)));
    block_->token_reader = Descriptor{ends[0]};
    block_->token_writer = Descriptor{ends[1]};
  }
  return RegionDescriptors{block_->mapping.memory.get(), block_->token_writer.get()};
}

// -- RegionDraft ----------------------------------------------------------------------------------

std::byte* RegionDraft::data() noexcept {
  return block_->mapping.data.get();
}

std::size_t RegionDraft::size() const noexcept {
  return block_->size;
}

SharedRegion RegionDraft::seal() && {
  auto& mapping = block_->mapping;
  // Our own mapping stays writable, for the region that uses this memory next; all later ones can only read.
  if (mapping.memory && !std::exchange(mapping.sealed, true)
      && ::fcntl(mapping.memory.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    mapping.memory.reset(); // a kernel before 5.1 lacks the seal: no other process may map this memory
  return SharedRegion{std::move(block_)};
}

// -- RegionPool -----------------------------------------------------------------------------------

std::shared_ptr<RegionPool> RegionPool::create(const RegionPoolOptions& options) {
  return std::shared_ptr<RegionPool>{new RegionPool{options}};
}

RegionPool::RegionPool(const RegionPoolOptions& options) : options_(options), most_warm_bytes_(options.warm_bytes) {
  if (options_.mappable_most == 0) {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    options_.mappable_most = static_cast<std::size_t>(files.rlim_cur / 8);
  }
}

RegionPool::~RegionPool() = default;

Result<RegionDraft> RegionPool::make(std::size_t bytes, RegionReaders readers) {
  RegionMapping mapping;
  // The one place that decides what a region is made of.
  if (bytes < options_.mappable_from || bytes > PTRDIFF_MAX) {
    mapping = bytes <= PTRDIFF_MAX ? make_heap(bytes) : RegionMapping{};
  } else {
    if (readers == RegionReaders::machine)
      mapping = make_shared(bytes);
    if (mapping.data == nullptr)
      mapping = take_warm(bytes, false);
    if (mapping.data == nullptr)
      mapping = make_pages(bytes);
  }
  if (mapping.data == nullptr)
    return fail(Errc::out_of_memory,
                fmt::format("the host has no memory for a region of {} bytes ({})", bytes, format_bytes(bytes)));
  auto block = std::make_shared<detail::RegionBlock>();
  block->mapping = std::move(mapping);
  block->size = bytes;
  block->home = weak_from_this();
  return RegionDraft{std::move(block)};
}

Result<SharedRegion> RegionPool::copy(const void* source, std::size_t bytes, RegionReaders readers) {
  GPUACTORS_LET(draft, make(bytes, readers));
  const auto& mapping = draft.block_->mapping;
  const bool cold = mapping.memory && !mapping.warm;
  if (bytes > 0 && !(cold && write_file(mapping.memory.get(), source, bytes)))
    std::memcpy(draft.data(), source, bytes);
  return std::move(draft).seal();
}

RegionMapping RegionPool::take_warm(std::size_t bytes, bool shared) {
  const auto kind = shared ? RegionMapping::Kind::shared : RegionMapping::Kind::pages;
  const auto most = bytes + std::max(bytes / 4, huge_page);
  const std::lock_guard lock{mutex_};
  auto best = warm_.end();
  for (auto item = warm_.begin(); item != warm_.end(); ++item)
    if (item->kind == kind && item->capacity >= bytes && item->capacity <= most
        && (best == warm_.end() || item->capacity <= best->capacity))
      best = item;
  if (best == warm_.end())
    return {};
  auto result = std::move(*best);
  warm_.erase(best);
  warm_bytes_ -= result.capacity;
  return result;
}

RegionMapping RegionPool::make_shared(std::size_t bytes) {
  if (auto warm = take_warm(bytes, true); warm.data != nullptr) {
    populate(warm);
    return warm;
  }
  std::vector<RegionMapping> dropped;
  {
    const std::lock_guard lock{mutex_};
    // Kept memory that no region uses makes room.
    while (mappable_ >= options_.mappable_most && !warm_.empty())
      drop_oldest(dropped);
    if (mappable_ >= options_.mappable_most)
      return {};
    ++mappable_;
  }
  dropped.clear();
  RegionMapping result;
  result.kind = RegionMapping::Kind::shared;
  result.capacity = capacity_for(bytes);
  result.memory = Descriptor{::memfd_create("gpuactors", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (result.memory && ::ftruncate(result.memory.get(), static_cast<off_t>(result.capacity)) == 0
      && ::fcntl(result.memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    result.data = map_pages(result.capacity, PROT_READ | PROT_WRITE, MAP_SHARED, result.memory.get());
  if (result.data == nullptr) {
    const std::lock_guard lock{mutex_};
    --mappable_;
  }
  return result;
}

void RegionPool::take_back(RegionMapping mapping, bool idle) {
  if (mapping.kind == RegionMapping::Kind::heap)
    return;
  // Unmapped after the lock is released.
  std::vector<RegionMapping> dropped;
  std::function<void()> on_spare;
  {
    const std::lock_guard lock{mutex_};
    if (idle && mapping.capacity <= most_warm_bytes_
        && (mapping.kind == RegionMapping::Kind::pages || mapping.memory)) {
      mapping.warm = true;
      mapping.idle_since = Clock::now();
      warm_bytes_ += mapping.capacity;
      warm_.push_back(std::move(mapping));
      while (warm_bytes_ > most_warm_bytes_)
        drop_oldest(dropped);
      if (warm_bytes_ > options_.warm_bytes)
        on_spare = on_spare_;
    } else {
      if (mapping.kind == RegionMapping::Kind::shared)
        --mappable_;
      dropped.push_back(std::move(mapping));
    }
  }
  if (on_spare)
    on_spare();
}

void RegionPool::drop_oldest(std::vector<RegionMapping>& dropped) {
  auto& oldest = warm_.front();
  warm_bytes_ -= oldest.capacity;
  if (oldest.kind == RegionMapping::Kind::shared)
    --mappable_;
  dropped.push_back(std::move(oldest));
  warm_.erase(warm_.begin());
}

void RegionPool::trim() {
  std::vector<RegionMapping> dropped;
  const std::lock_guard lock{mutex_};
  while (!warm_.empty())
    drop_oldest(dropped);
}

void RegionPool::keep_spare(std::size_t bytes, std::function<void()> on_spare) {
  const std::lock_guard lock{mutex_};
  most_warm_bytes_ = std::max(bytes, options_.warm_bytes);
  on_spare_ = std::move(on_spare);
}

std::optional<TimePoint> RegionPool::end_spare(TimePoint until) {
  std::vector<RegionMapping> dropped;
  const std::lock_guard lock{mutex_};
  while (warm_bytes_ > options_.warm_bytes) {
    if (warm_.front().idle_since > until)
      return warm_.front().idle_since;
    drop_oldest(dropped);
  }
  return std::nullopt;
}

std::size_t RegionPool::warm_bytes() const {
  const std::lock_guard lock{mutex_};
  return warm_bytes_;
}

} // namespace gpuactors
