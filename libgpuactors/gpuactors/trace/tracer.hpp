// Tracer: keeps spans that are over, and has a thread send them in batches.
#pragma once

#include <gpuactors/trace/span_record.hpp>
#include <gpuactors/trace/trace_options.hpp>

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gpuactors {

/// Where batches go.
class SpanSink {
public:
  virtual ~SpanSink() = default;

  /// Sends the body of one request, and waits for its answer. On the tracer's thread.
  /// @returns `unavailable` if the same request may succeed later, another error if it will not.
  virtual Result<void> send(const std::string& body) = 0;
};

/// Any thread may record; that takes a lock for a few instructions and never waits for the collector.
class Tracer {
public:
  /// Starts the thread; throws `std::system_error` without one.
  /// @param notice called with a line for people when spans are lost, and when they arrive again; at most once for each
  ///        change. On the tracer's thread.
  Tracer(TraceOptions options, std::unique_ptr<SpanSink> sink, std::function<void(const std::string&)> notice);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Ends without sending what waits; see `flush`. Waits for the request that is on its way.
  ~Tracer();

  [[nodiscard]] const Sampler& sampler() const noexcept {
    return options_.sampler;
  }

  /// Keeps a span until it is sent; it is lost if `TraceOptions::queue` wait, and in a forked process, which has none
  /// of the threads.
  void record(SpanRecord span);

  /// Sends what waits now; in a forked process nothing does.
  /// @returns whether all of it was sent, or given up, within `timeout`.
  bool flush(Duration timeout);

private:
  void run();
  /// With the lock, which it gives back meanwhile: sends a batch, again after a pause while the collector cannot be
  /// reached.
  void deliver(std::unique_lock<std::mutex>& lock, std::vector<SpanRecord> spans);
  /// Whether somebody flushes, and waits for spans that are still here. The mutex is held.
  [[nodiscard]] bool in_hurry() const noexcept {
    return settled_ < hurry_to_;
  }

  /// Says what has changed about the spans that are lost, if something has.
  void tell(const Result<void>& sent, std::size_t lost);

  const TraceOptions options_;
  const std::unique_ptr<SpanSink> sink_;
  const std::function<void(const std::string&)> notice_;
  /// The process that has the thread.
  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable flushed_;
  // Guarded by the mutex: what waits, how many were lost for want of room since that was said, how many were recorded
  // in all, of how many the way has ended, and up to which one they have to go out at once.
  std::vector<SpanRecord> waiting_;
  std::size_t crowded_out_ = 0;
  bool stopping_ = false;
  std::uint64_t recorded_ = 0;
  std::uint64_t settled_ = 0;
  std::uint64_t hurry_to_ = 0;
  /// For the thread alone: what became of the last batch and of those that waited behind it.
  enum class Losing : std::uint8_t { none, some, all };
  Losing losing_ = Losing::none;
  std::thread thread_;
};

/// Returns the tracer of this process, made from its environment by the first call; null if it records nothing. Never
/// destroyed: other threads may still record when the process ends.
Tracer* process_tracer();

} // namespace gpuactors
