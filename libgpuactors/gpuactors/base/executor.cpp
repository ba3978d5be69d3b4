#include <gpuactors/base/executor.hpp>

#include <system_error>

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
  else
    run(); // what never got a thread
}

bool Executor::post(std::function<void()> function) {
  {
    const std::lock_guard lock{mutex_};
    if (stopping_)
      return false;
    queue_.push_back(std::move(function));
    if (!thread_.joinable())
      start();
  }
  wake_.notify_one();
  return true;
}

void Executor::start() {
  try {
    thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error&) { // the machine has no thread left
    // What is queued runs when a later `post` or `stop` gets one. An exception here would end the thread that completes
    // the work of others.
  }
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
