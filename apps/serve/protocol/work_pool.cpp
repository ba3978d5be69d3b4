#include <apps/serve/protocol/work_pool.hpp>

#include <limits>
#include <system_error>
#include <utility>

namespace serve {

WorkPool::~WorkPool() {
  end();
}

void WorkPool::end() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_)
    if (thread.joinable())
      thread.join();
}

bool WorkPool::run(Work work) {
  return add(std::move(work), most_waiting_);
}

bool WorkPool::queue(Work work) {
  return add(std::move(work), std::numeric_limits<std::size_t>::max());
}

bool WorkPool::add(Work work, std::size_t most_waiting) {
  const std::lock_guard lock{mutex_};
  if (ending_ || waiting_.size() >= most_waiting)
    return false;
  waiting_.push_back(std::move(work));
  if (idle_ < waiting_.size() && threads_.size() < most_threads_) {
    try {
      threads_.emplace_back([this] { serve_work(); });
    } catch (const std::system_error&) { // the machine has no thread left: the others do it, if there are any
      if (threads_.empty()) {
        waiting_.pop_back();
        return false;
      }
    }
  }
  changed_.notify_one();
  return true;
}

void WorkPool::serve_work() {
  std::unique_lock lock{mutex_};
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty())
      return;
    auto work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr; // what it holds is let go without the lock
    lock.lock();
  }
}

} // namespace serve
