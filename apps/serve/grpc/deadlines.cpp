#include <apps/serve/grpc/deadlines.hpp>

namespace serve {

using gpuactors::Clock;

Deadlines::Deadlines() : thread_([this] { watch(); }) {
  // nop
}

Deadlines::~Deadlines() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Deadlines::begin(Key key, gpuactors::Duration time, Late late) {
  const auto deadline = gpuactors::deadline_after(Clock::now(), time);
  const std::lock_guard lock{mutex_};
  if (const auto found = items_.find(key); found != items_.end()) {
    if (found->second.deadline <= deadline)
      return;
    take(key);
  }
  items_.emplace(key, Item{deadline, std::move(late)});
  by_deadline_.emplace(deadline, key);
  // Most of it is over long before the thread looks: it is not woken for each.
  if (deadline < wakes_at_)
    changed_.notify_all();
}

Deadlines::Late Deadlines::end(Key key) {
  const std::lock_guard lock{mutex_};
  return take(key);
}

void Deadlines::end_and_wait(Key key) {
  std::unique_lock lock{mutex_};
  take(key);
  if (std::this_thread::get_id() != thread_.get_id())
    returned_.wait(lock, [&] { return !is_running_ || running_ != key; });
}

Deadlines::Late Deadlines::take(Key key) {
  const auto found = items_.find(key);
  if (found == items_.end())
    return nullptr;
  auto late = std::move(found->second.late);
  by_deadline_.erase({found->second.deadline, key});
  items_.erase(found);
  return late;
}

void Deadlines::watch() {
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
    const auto late = take(key);
    running_ = key;
    is_running_ = true;
    lock.unlock();
    late();
    lock.lock();
    is_running_ = false;
    returned_.notify_all();
  }
}

} // namespace serve
