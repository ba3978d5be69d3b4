// Where callbacks run: one thread of its own, never the thread that happened to complete the work.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gpuactors {

/// Runs functions in the order in which they were posted, on one thread of its own that starts with the first of them.
class Executor {
public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Stops as `stop` does.
  ~Executor();

  /// Runs what was posted so far, then ends the thread. Idempotent. Not from a posted function.
  void stop();

  /// Queues `function`. Any thread; never blocks for long. After the executor began to stop, it is dropped.
  void post(std::function<void()> function);

private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
  bool stopping_ = false;
};

} // namespace gpuactors
