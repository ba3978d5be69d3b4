// MemoryWatch: looks at the memory of worker processes on a thread of its own.
#pragma once

#include <gpuactors/agent/memory_reader.hpp>
#include <gpuactors/base/result.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace gpuactors {

/// Answers queries for an agent, which must not wait: a look may have to wait for the lock of a process that is stuck
/// in a driver. Methods may be called from any thread.
class MemoryWatch {
public:
  using Done = std::function<void(MemoryLook)>;

  /// @returns `unavailable` when no thread is left.
  static Result<std::unique_ptr<MemoryWatch>> make(MemoryReader reader = MemoryReader{});

  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  /// Waits for the look that is being made.
  ~MemoryWatch();

  /// Has `done` called with what was seen, on the watch's thread. A query that has not been begun is replaced.
  void look(MemoryQuery query, Done done);

private:
  struct Wanted {
    MemoryQuery query;
    Done done;
  };

  explicit MemoryWatch(MemoryReader reader);
  void run();

  const MemoryReader reader_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<Wanted> wanted_;
  bool stopping_ = false;
  /// The last member, since the thread uses the others.
  std::thread thread_;
};

} // namespace gpuactors
