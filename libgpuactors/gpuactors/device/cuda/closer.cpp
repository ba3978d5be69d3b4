#include <gpuactors/device/cuda/closer.hpp>

#include <system_error>

namespace gpuactors::cuda {

Closer::~Closer() {
  {
    const std::lock_guard guard{mutex_};
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable())
    thread_.join();
}

void Closer::add(std::shared_ptr<void> what) {
  const std::lock_guard guard{mutex_};
  try {
    if (!thread_.joinable())
      thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error&) {
    return; // no more threads: who drops it waits
  }
  waiting_.push_back(std::move(what));
  ++added_;
  changed_.notify_all();
}

void Closer::drain() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this, until = added_] { return gone_ >= until; });
}

void Closer::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty())
      return;
    auto going = std::move(waiting_);
    waiting_.clear();
    const auto count = going.size();
    lock.unlock();
    going.clear();
    lock.lock();
    gone_ += count;
    changed_.notify_all();
  }
}

} // namespace gpuactors::cuda
