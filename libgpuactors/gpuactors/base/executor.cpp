#include <gpuactors/base/callback_thread.hpp>
#include <gpuactors/base/executor.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>

namespace gpuactors {

namespace {

thread_local bool runs_callbacks = false;

} // namespace

bool is_callback_thread() noexcept {
  return runs_callbacks;
}

struct Executor::Queue {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> functions;
  bool started = false;
  bool stopping = false;

  /// The body of the thread: runs functions until there are no more to come.
  void run() {
    std::unique_lock lock{mutex};
    for (;;) {
      wake.wait(lock, [this] { return stopping || !functions.empty(); });
      if (functions.empty())
        return;
      auto function = std::move(functions.front());
      functions.pop_front();
      lock.unlock();
      function();
      function = nullptr;
      lock.lock();
    }
  }
};

Executor::Executor() : queue_(std::make_shared<Queue>()) {
  // nop
}

Executor::~Executor() {
  stop();
}

void Executor::stop() {
  bool started = false;
  {
    const std::lock_guard lock{queue_->mutex};
    queue_->stopping = true;
    started = queue_->started;
  }
  queue_->wake.notify_all();
  if (!started)
    queue_->run(); // what never got a thread
  else if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else if (thread_.joinable())
    thread_.join();
}

std::function<void()> Executor::post(std::function<void()> function) {
  {
    const std::lock_guard lock{queue_->mutex};
    if (queue_->stopping)
      return function;
    queue_->functions.push_back(std::move(function));
    if (!queue_->started) {
      try {
        thread_ = std::thread{[queue = queue_] {
          runs_callbacks = true;
          queue->run();
        }};
        queue_->started = true;
      } catch (const std::system_error&) { // the machine has no thread left
        // What is queued runs when a later `post` or `stop` gets one. An exception here would end the thread that
        // completes the work of others.
      }
    }
  }
  queue_->wake.notify_one();
  return nullptr;
}

} // namespace gpuactors
