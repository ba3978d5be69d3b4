// Executor: a separate thread for callbacks, so they never run on the thread that completed the work.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace gpuactors {

/// Runs functions in the order of posting, on one thread that starts with the first function.
class Executor {
public:
  Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Stops like `stop`.
  ~Executor();

  /// Runs all functions posted so far, then ends the thread. Idempotent. Waits for that, except in a posted function:
  /// the rest then runs after it, even if the executor itself is destroyed there.
  void stop();

  /// Queues `function`. If the machine has no thread left, it runs after a later `post` that gets one, or in `stop`.
  /// Any thread; never blocks for long.
  /// @returns nothing if it runs the function; the function itself once the executor has begun to stop.
  std::function<void()> post(std::function<void()> function);

private:
  struct Queue;

  /// Shared with the thread, which may outlive this object.
  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

} // namespace gpuactors
