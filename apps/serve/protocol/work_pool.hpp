// A few threads for what would hold up others: loading models, and reading or writing large requests.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace serve {

/// Runs work in the order in which it came, on threads that are started when they are needed first. Any thread.
class WorkPool {
public:
  using Work = std::function<void()>;

  /// @param most_waiting So much work may wait for a thread.
  WorkPool(std::size_t threads, std::size_t most_waiting) : most_threads_(threads), most_waiting_(most_waiting) {
    // nop
  }

  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// Calls `end`, if nobody did.
  ~WorkPool();

  /// Runs what waits, and returns when all is done; from then on nothing is run. Not from within its own work.
  void end();

  /// Has `work` run. It must not throw.
  /// @returns false when too much waits already, when there is no thread for it, and at the end; then it is not run.
  [[nodiscard]] bool run(Work work);

  /// The same, however much waits: for work that its caller bounds.
  [[nodiscard]] bool queue(Work work);

private:
  [[nodiscard]] bool add(Work work, std::size_t most_waiting);
  void serve_work();

  std::size_t most_threads_;
  std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  std::size_t idle_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

} // namespace serve
