#include "guests.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace gpuactors::transport {

namespace {

// An honest stranger shows its certificate within milliseconds, even if many connect at once.
constexpr std::chrono::milliseconds stranger_grace{200};

} // namespace

void Guests::set(Guest& guest, GuestState state) {
  bool wake = false;
  {
    const std::lock_guard lock{mutex_};
    guest.state_ = state;
    guest.since_ = Clock::now();
    wake = others_wait_ && state == GuestState::idle;
  }
  if (wake)
    changed_.set();
}

Guests::Guest* Guests::oldest(GuestState state) {
  Guest* result = nullptr;
  for (auto& guest : here_)
    if (guest.state_ == state && !guest.evicted_ && (result == nullptr || guest.since_ < result->since_))
      result = &guest;
  return result;
}

Room Guests::evict(Guest* guest) {
  if (guest == nullptr)
    return Room::none;
  guest->evicted_ = true;
  guest->channel_.interrupt();
  return Room::soon;
}

Room Guests::make_room(TimePoint& again) {
  const std::lock_guard lock{mutex_};
  const auto strangers = std::count_if(here_.begin(), here_.end(),
                                       [](const Guest& guest) { return guest.state_ == GuestState::stranger; });
  others_wait_ = true;
  if (strangers >= static_cast<std::ptrdiff_t>(limits::bulk_strangers)) {
    auto* guest = oldest(GuestState::stranger);
    if (guest == nullptr || Clock::now() >= guest->since_ + stranger_grace)
      return evict(guest);
    again = std::min(again, guest->since_ + stranger_grace);
    return Room::none;
  }
  if (here_.size() >= most_) {
    if (std::any_of(here_.begin(), here_.end(), [](const Guest& guest) { return guest.evicted_; }))
      return Room::none;
    return evict(oldest(GuestState::idle));
  }
  others_wait_ = false;
  return Room::here;
}

void Guests::evict() {
  const std::lock_guard lock{mutex_};
  auto* stranger = oldest(GuestState::stranger);
  evict(stranger != nullptr ? stranger : oldest(GuestState::idle));
}

void Guests::add(Channel channel, std::function<void(Guest&)> serve) {
  const std::lock_guard lock{mutex_};
  if (closed_)
    return;
  here_.emplace_back(*this, std::move(channel));
  const auto self = std::prev(here_.end());
  try {
    self->thread_ = std::thread{[this, self, serve = std::move(serve)] {
      serve(*self);
      leave(self);
    }};
  } catch (const std::system_error&) { // no thread left: the peer sees the connection end
    here_.erase(self);
  }
}

void Guests::leave(List::iterator guest) {
  {
    const std::lock_guard lock{mutex_};
    // The peer sees the end of the connection now, not only when the thread is joined.
    guest->channel_.interrupt();
    gone_.splice(gone_.end(), here_, guest);
    left_.notify_all();
  }
  changed_.set();
}

void Guests::join_ended() {
  List gone;
  {
    const std::lock_guard lock{mutex_};
    gone.swap(gone_);
  }
  for (auto& guest : gone)
    guest.thread_.join();
}

void Guests::join_all() {
  {
    std::unique_lock lock{mutex_};
    closed_ = true;
    left_.wait(lock, [this] { return here_.empty(); });
  }
  join_ended();
}

std::size_t Guests::size() const {
  const std::lock_guard lock{mutex_};
  return here_.size();
}

} // namespace gpuactors::transport
