#include <gpuactors/actor/detail/tensor_table.hpp>
#include <gpuactors/device/detail/shape.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace gpuactors::detail {

namespace {

Failure lost_tensor() {
  return fail(Errc::actor_died, "the tensor is lost: the task or actor that put it has ended");
}

std::uint64_t random_identity() {
  std::random_device random;
  return (std::uint64_t{random()} << 32U) | random();
}

} // namespace

Result<std::size_t> shared_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  // Elsewhere tensors have elements: with one in the place of none, all else about it is checked.
  auto filled = shape;
  std::replace(filled.begin(), filled.end(), std::int64_t{0}, std::int64_t{1});
  GPUACTORS_LET(bytes, tensor_bytes(dtype, filled));
  return filled == shape ? bytes : 0;
}

// -- TensorEntry ----------------------------------------------------------------------------------

TensorEntry::~TensorEntry() {
  if (const auto home = table.lock())
    home->forget(*this);
}

Mark Coming::mark() const {
  const std::lock_guard lock{mutex_};
  return mark_;
}

void Coming::set(Result<void> outcome) {
  const std::lock_guard lock{mutex_};
  outcome_ = std::move(outcome);
  // The tensor may live for long; the next mark of its stream needs an event.
  mark_ = Mark{};
  done_.notify_all();
}

Result<void> Coming::wait() const {
  std::unique_lock lock{mutex_};
  done_.wait(lock, [this] { return outcome_.has_value(); });
  return *outcome_;
}

Result<Tensor> TensorEntry::view_on(Stream& stream) const {
  Mark mark;
  // Errors of work on CUDA reach all that waits for it, the device being lost; those of a host device do not.
  if (coming != nullptr && device->info().kind == DeviceKind::cuda)
    mark = coming->mark();
  if (coming != nullptr && !mark)
    GPUACTORS_TRY(coming->wait());
  GPUACTORS_LET(result, tensor.pinned(stream));
  if (!result)
    return lost_tensor();
  if (mark)
    GPUACTORS_TRY(stream.wait(mark));
  return std::move(result);
}

Result<Tensor> TensorEntry::view() const {
  if (device == nullptr)
    return fail(Errc::unsupported, "the tensor lies in host memory: on() brings it to a device, host() reads it there");
  if (coming != nullptr)
    GPUACTORS_TRY(coming->wait());
  auto result = tensor.pinned();
  if (!result)
    return lost_tensor();
  return result;
}

Result<SharedRegion> TensorEntry::host_bytes() {
  const std::lock_guard lock{mutex};
  if (device == nullptr)
    return region;
  if (auto source = view(); !source)
    return fail(source.error());
  if (region)
    return region;
  const auto home = table.lock();
  if (home == nullptr)
    return fail(Errc::unavailable, "the store of the tensor has ended");
  GPUACTORS_LET(draft, home->make(bytes));
  GPUACTORS_TRY(read(draft.data()));
  region = std::move(draft).seal();
  return region;
}

Result<void> TensorEntry::read(void* target) {
  if (device == nullptr) {
    if (bytes > 0)
      std::memcpy(target, region.data(), bytes);
    return {};
  }
  GPUACTORS_LET(source, view());
  // A reader's own hold on the device: the smallest share, no memory.
  ContextOptions options;
  options.share = Share{1};
  options.holder = "reader of a shared tensor";
  GPUACTORS_LET(context, Context::open(device, options));
  GPUACTORS_TRY(context->stream().download(target, source.raw(), source.bytes()));
  return context->stream().synchronize();
}

// -- TensorTable ----------------------------------------------------------------------------------

TensorTable::TensorTable(RegionReaders readers) : identity_(random_identity()), readers_(readers) {
  // nop
}

std::string TensorTable::address() const {
  const std::lock_guard lock{mutex_};
  return address_;
}

void TensorTable::set_address(std::string address) {
  const std::lock_guard lock{mutex_};
  address_ = std::move(address);
}

Result<RegionDraft> TensorTable::make(std::size_t bytes) const {
  return pool_->make(bytes, readers_);
}

Result<SharedRegion> TensorTable::copy(const void* source, std::size_t bytes) const {
  return pool_->copy(source, bytes, readers_);
}

std::shared_ptr<TensorEntry> TensorTable::add(std::shared_ptr<TensorEntry> entry) {
  entry->table = weak_from_this();
  const std::lock_guard lock{mutex_};
  entry->id = ++last_id_;
  entries_[entry->id] = entry;
  return entry;
}

void TensorTable::forget(const TensorEntry& entry) {
  const std::lock_guard lock{mutex_};
  entries_.erase(entry.id);
  // Somebody may have fetched it anew meanwhile.
  if (const auto found = fetched_.find(entry.origin);
      found != fetched_.end() && !found->second.coming && found->second.entry.expired())
    fetched_.erase(found);
}

std::shared_ptr<TensorEntry> TensorTable::take(std::uint64_t id, std::uint64_t hand_over) {
  const std::lock_guard lock{mutex_};
  if (const auto open = open_.find(hand_over); open != open_.end() && open->second.entry->id == id) {
    auto entry = std::move(open->second.entry);
    open_.erase(open);
    return entry;
  }
  const auto found = entries_.find(id);
  return found != entries_.end() ? found->second.lock() : nullptr;
}

std::uint64_t TensorTable::hand_over(std::shared_ptr<TensorEntry> entry, Duration keep) {
  const std::lock_guard lock{mutex_};
  if (closed_)
    return 0; // the caller still holds it
  open_[++last_hand_over_] = HandOver{std::move(entry), deadline_after(Clock::now(), keep)};
  stir();
  return last_hand_over_;
}

std::shared_ptr<TensorEntry> TensorTable::begin_fetch(const TensorName& name) {
  std::unique_lock lock{mutex_};
  fetch_ended_.wait(lock, [&] {
    const auto found = fetched_.find(name);
    return found == fetched_.end() || !found->second.coming;
  });
  auto& fetched = fetched_[name];
  auto entry = fetched.entry.lock();
  fetched.coming = entry == nullptr;
  return entry;
}

void TensorTable::arrived(const TensorName& name, const std::shared_ptr<TensorEntry>& entry) {
  const std::lock_guard lock{mutex_};
  if (entry != nullptr)
    fetched_[name] = Fetched{entry, false};
  else
    fetched_.erase(name);
  fetch_ended_.notify_all();
}

std::size_t TensorTable::size() const {
  const std::lock_guard lock{mutex_};
  return entries_.size();
}

Result<SharedRegion> TensorTable::find(std::uint64_t id) {
  if (const auto entry = take(id, 0))
    return entry->host_bytes();
  return fail(Errc::not_found, fmt::format("tensor {} is gone: nobody holds it any more", id));
}

void TensorTable::taken(std::uint64_t id, std::uint64_t hand_over) {
  take(id, hand_over);
}

TimePoint TensorTable::end_hand_overs(TimePoint now, std::vector<std::shared_ptr<TensorEntry>>& ended) {
  auto next = never;
  for (auto item = open_.begin(); item != open_.end();) {
    if (item->second.until <= now) {
      ended.push_back(std::move(item->second.entry));
      item = open_.erase(item);
    } else {
      next = std::min(next, item->second.until);
      ++item;
    }
  }
  return next;
}

void TensorTable::keep_time() {
  pool_->keep_spare(limits::region_spare_bytes, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      const std::lock_guard lock{self->mutex_};
      self->stir();
    }
  });
  std::unique_lock lock{mutex_};
  while (!closed_) {
    stirred_ = false;
    std::vector<std::shared_ptr<TensorEntry>> ended;
    const auto now = Clock::now();
    auto next = end_hand_overs(now, ended);
    lock.unlock();
    ended.clear();
    if (const auto oldest = pool_->end_spare(now - limits::region_spare_time))
      next = std::min(next, *oldest + limits::region_spare_time);
    lock.lock();
    const auto stirred = [this] { return stirred_; };
    if (next == never)
      changed_.wait(lock, stirred);
    else
      changed_.wait_until(lock, next, stirred);
  }
  lock.unlock();
  pool_->keep_spare(0, {});
  pool_->end_spare(never);
}

void TensorTable::stir() {
  stirred_ = true;
  changed_.notify_all();
}

void TensorTable::close() {
  std::map<std::uint64_t, HandOver> ended; // let go after the lock
  const std::lock_guard lock{mutex_};
  closed_ = true;
  ended.swap(open_);
  stir();
}

} // namespace gpuactors::detail
