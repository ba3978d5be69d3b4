#include <gpuactors/base/executor.hpp>

namespace gpuactors {

Executor::~Executor() {
  stop();
}

void Executor::stop() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void Executor::post(std::function<void()> function) {
  {
    const std::lock_guard lock{mutex_};
    if (stopping_)
      return;
    queue_.push_back(std::move(function));
    if (!thread_.joinable())
      thread_ = std::thread{[this] { run(); }};
  }
  wake_.notify_one();
}

void Executor::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty())
      return;
    auto function = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    function();
    function = nullptr;
    lock.lock();
  }
}

} // namespace gpuactors
