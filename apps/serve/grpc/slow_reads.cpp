#include <apps/serve/grpc/slow_reads.hpp>

namespace serve {

using gpuactors::Clock;

SlowReads::SlowReads(std::size_t most_strangers) : most_strangers_(most_strangers), thread_([this] { watch(); }) {
  // nop
}

SlowReads::~SlowReads() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

SlowReads::Key SlowReads::begin(gpuactors::Duration time, bool stranger, GiveUp give_up) {
  GiveUp displaced;
  Key key = 0;
  {
    const std::lock_guard lock{mutex_};
    if (stranger && strangers_.size() >= most_strangers_)
      displaced = take(*strangers_.begin());
    key = next_++;
    const auto deadline = gpuactors::deadline_after(Clock::now(), time);
    reads_.emplace(key, Read{deadline, std::move(give_up)});
    by_deadline_.emplace(deadline, key);
    if (stranger)
      strangers_.insert(key);
    // Most messages have arrived long before the thread looks: it is not woken for each.
    if (deadline < wakes_at_)
      changed_.notify_all();
  }
  if (displaced)
    displaced();
  return key;
}

void SlowReads::end(Key key) {
  const std::lock_guard lock{mutex_};
  if (reads_.contains(key))
    take(key);
}

SlowReads::GiveUp SlowReads::take(Key key) {
  const auto found = reads_.find(key);
  auto give_up = std::move(found->second.give_up);
  by_deadline_.erase({found->second.deadline, key});
  strangers_.erase(key);
  reads_.erase(found);
  return give_up;
}

void SlowReads::watch() {
  std::unique_lock lock{mutex_};
  while (!ending_) {
    if (by_deadline_.empty()) {
      wakes_at_ = gpuactors::never;
      changed_.wait(lock);
      continue;
    }
    const auto [deadline, key] = *by_deadline_.begin();
    if (deadline > Clock::now()) {
      wakes_at_ = deadline;
      changed_.wait_until(lock, deadline);
      continue;
    }
    const auto give_up = take(key);
    lock.unlock();
    give_up();
    lock.lock();
  }
}

} // namespace serve
