#include <gpuactors/actor/detail/tensor_table.hpp>
#include <gpuactors/base/random_id.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gpuactors::detail {

TensorTable::TensorTable(RegionReaders readers) : identity_(random_id()), readers_(readers) {
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

Result<void> TensorTable::start() {
  GPUACTORS_LET(signal, transport::Signal::make());
  const std::lock_guard lock{mutex_};
  stirred_ = std::move(signal);
  return {};
}

std::shared_ptr<TensorEntry> TensorTable::add(std::shared_ptr<TensorEntry> entry) {
  entry->table = weak_from_this();
  const std::lock_guard lock{mutex_};
  // Not to be guessed: who knows it may read the tensor.
  entry->id = random_id();
  entries_[entry->id] = entry;
  return entry;
}

void TensorTable::forget(const TensorEntry& entry) {
  const std::lock_guard lock{mutex_};
  if (entry.borrowed)
    stir();
  entries_.erase(entry.id);
  // Another thread may have fetched the tensor again meanwhile.
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
    return 0; // the caller still holds `entry`, so it does not end under the mutex
  const auto number = random_id();
  const auto until = deadline_after(Clock::now(), keep);
  open_[number] = HandOver{std::move(entry), until};
  if (until < next_end_) {
    next_end_ = until;
    stir();
  }
  return number;
}

Result<std::shared_ptr<TensorEntry>> TensorTable::begin_fetch(const TensorName& name, TimePoint deadline) {
  std::unique_lock lock{mutex_};
  const auto is_free = [&] {
    const auto found = fetched_.find(name);
    return found == fetched_.end() || !found->second.coming;
  };
  if (deadline == never)
    fetch_ended_.wait(lock, is_free);
  else if (!fetch_ended_.wait_until(lock, deadline, is_free))
    return fail(Errc::deadline_exceeded, "the tensor has not arrived in time: another thread fetches it");
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

// -- tensors on a device, lent and borrowed -------------------------------------------------------

Result<DevicePass> TensorTable::find_on_device(std::uint64_t id) {
  const auto entry = take(id, 0);
  if (entry == nullptr)
    return fail(Errc::not_found, fmt::format("tensor {} is gone: nobody holds it any more", id));
  auto ended = [weak = weak_from_this(), id] {
    if (const auto self = weak.lock())
      self->recall(id);
  };
  DevicePass pass;
  {
    const std::lock_guard lock{mutex_};
    if (closed_)
      return fail(Errc::unavailable, "the store of the tensor has ended");
    GPUACTORS_LET(line, lines_.lend(entry));
    pass.line = std::move(line);
    stir();
  }
  // On failure, `pass` closes its end of the line, and the line ends.
  GPUACTORS_LET(memory, entry->device_bytes(std::move(ended)));
  pass.memory = memory->descriptor();
  pass.bytes = entry->bytes;
  pass.holder = std::move(memory);
  return pass;
}

void TensorTable::recall(std::uint64_t id) {
  const std::lock_guard lock{mutex_};
  lines_.recall(id);
  stir();
}

void TensorTable::borrow(const std::shared_ptr<TensorEntry>& entry, std::shared_ptr<Descriptor> line) {
  const std::lock_guard lock{mutex_};
  // No thread watches lines after `close`.
  if (closed_)
    return;
  lines_.borrow(entry, std::move(line));
  stir();
}

// -- the keeper -----------------------------------------------------------------------------------

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

void TensorTable::settle(EndedLines& lines) {
  for (const auto& entry : lines.lost)
    entry->lose();
  lines = EndedLines{};
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
    stirred_->clear();
    std::vector<std::shared_ptr<TensorEntry>> ended;
    EndedLines lines;
    auto next = next_end_ = end_hand_overs(Clock::now(), ended);
    lines_.sweep(lines);
    std::vector<pollfd> polled{{stirred_->descriptor(), POLLIN, 0}};
    lines_.prepare(polled);
    lock.unlock();
    ended.clear();
    settle(lines);
    if (const auto oldest = pool_->end_spare(Clock::now() - limits::region_spare_time))
      next = std::min(next, *oldest + limits::region_spare_time);
    ::poll(polled.data(), polled.size(), transport::poll_timeout(next));
    lock.lock();
    lines_.settle(std::span{polled}.subspan(1), lines);
    lock.unlock();
    settle(lines);
    lock.lock();
  }
  EndedLines lines;
  lines_.end(lines);
  lock.unlock();
  settle(lines);
  pool_->keep_spare(0, {});
  pool_->end_spare(never);
}

void TensorTable::stir() {
  if (stirred_)
    stirred_->set();
}

void TensorTable::close() {
  std::map<std::uint64_t, HandOver> ended; // destroyed after the lock is released
  const std::lock_guard lock{mutex_};
  closed_ = true;
  ended.swap(open_);
  stir();
}

} // namespace gpuactors::detail
