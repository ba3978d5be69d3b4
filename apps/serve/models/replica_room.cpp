// Room for the next version of a model: replicas that are given up for it, and come back if it does not come.
#include "replica_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <tuple>
#include <utility>

namespace serve {

using gpuactors::Clock;

using namespace std::chrono_literals;

bool ReplicaSet::give_up_one(gpuactors::TimePoint until, bool in_place, const KeeperBell& stopped) {
  std::future<bool> has_ended;
  {
    const std::lock_guard lock{next_version_};
    giving_up_.emplace();
    giving_up_->until = until;
    giving_up_->in_place = in_place;
    giving_up_->since = Clock::now();
    has_ended = giving_up_->has_ended.get_future();
  }
  bell_->ring();
  while (has_ended.wait_for(100ms) != std::future_status::ready)
    if (stopped.stopped())
      return false;
  return has_ended.get();
}

void ReplicaSet::take_back() {
  const std::lock_guard lock{next_version_};
  // Nobody waits for it any more.
  giving_up_.reset();
  taken_back_ = true;
  bell_->ring();
}

void ReplicaSet::give_up() {
  std::unique_lock lock{next_version_};
  if (std::exchange(taken_back_, false) && before_ > 0) {
    dispatcher_->open();
    scaling_.take_back(before_);
    before_ = 0;
  }
  if (!giving_up_)
    return;
  const auto answer = [this](bool has_ended) {
    giving_up_->has_ended.set_value(has_ended);
    giving_up_.reset();
  };
  if (giving_up_->id != 0) {
    // Its share is free when its end is over.
    if (!actors_.contains(giving_up_->id) && !is_ending(giving_up_->id))
      answer(true);
    return;
  }
  const auto look = dispatcher_->look();
  const auto& replicas = look.replicas;
  if (before_ == 0)
    before_ = replicas.size();
  const auto in_place = giving_up_->in_place && before_ == 1;
  const auto stay = in_place ? 0 : (before_ + 1) / 2;
  // A start that waits for a share would get the one that becomes free; it does not wait for long.
  const auto waits_for_starts = !starts_.empty() && Clock::now() < giving_up_->since + 2 * needed_wait;
  if (giving_up_->closed && replicas.empty() && leaving_.empty()) {
    // It has died before it was to go: its share is free when its end is over.
    const auto still_ends = [](const auto& end) { return !end->is_over; };
    if (actors_.empty() && !waits_for_starts && std::none_of(ends_.begin(), ends_.end(), still_ends))
      answer(true);
    return;
  }
  if (replicas.size() <= stay)
    return answer(false);
  scaling_.give_up_beyond(std::max(stay, giving_up_->left.value_or(replicas.size() - 1)));
  giving_up_->left = scaling_.limits().max_replicas;
  if (waits_for_starts)
    return;
  const auto id = least_needed(replicas);
  if (!id)
    return answer(false);
  if (in_place && !std::exchange(giving_up_->closed, true)) {
    lock.unlock();
    dispatcher_->refuse_new("its only replica makes room for the next version");
    return bell_->ring();
  }
  // What was accepted before is answered first, as long as there is time.
  if (in_place && look.waiting + look.bound > 0 && Clock::now() < giving_up_->until)
    return;
  leaving_[*id] = {true, giving_up_->until, fmt::format("replica {} has made room for the next version", *id)};
  giving_up_->id = *id;
  // Without the lock: those that wait in vain hear of it here.
  lock.unlock();
  dispatcher_->retire(*id);
}

std::optional<std::uint64_t> ReplicaSet::least_needed(const std::vector<batching::ReplicaLook>& replicas) const {
  // The one that has been idle for longest: one that keeps sequences counts as not idle. None of a node that gives
  // nothing to anybody.
  const auto key = [this](const batching::ReplicaLook& one) {
    return std::tuple{leaving_.contains(one.id), one.busy, one.idle_since};
  };
  const auto found =
      std::min_element(replicas.begin(), replicas.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  if (found == replicas.end() || leaving_.contains(found->id))
    return std::nullopt;
  return found->id;
}

} // namespace serve
