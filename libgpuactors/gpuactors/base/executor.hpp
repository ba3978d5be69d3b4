// Executor: a separate thread for callbacks, so they never run on the thread that completed the work.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gpuactors {

/// Runs functions in the order of posting, on one thread that starts with the first function.
class Executor {
public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Stops like `stop`.
  ~Executor();

  /// Runs all functions posted so far, then ends the thread. Idempotent. Do not call from a posted function.
  void stop();

  /// Queues `function`. If the machine has no thread left, it runs after a later `post` that gets one, or in `stop`.
  /// Any thread; never blocks for long.
  /// @returns false once the executor has begun to stop: it does not run the function then.
  bool post(std::function<void()> function);

private:
  void start();
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
  bool stopping_ = false;
};

} // namespace gpuactors
