// The engine of one host backend: its streams, and the permits that bound how many threads work for it.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <type_traits>
#include <vector>

namespace gpuactors::host {

class Core;
class Leave;
class Pool;
struct HostStream;

/// One recording of an event: done once the stream has passed the point. Any thread.
class Record {
public:
  [[nodiscard]] bool done() const;

  /// Whether it is done; if not, `core` resumes `stream` once it is.
  bool await(std::shared_ptr<Core> core, HostStream* stream);

  void complete();

private:
  mutable std::mutex mutex_;
  bool done_ = false;
  std::vector<std::pair<std::shared_ptr<Core>, HostStream*>> waiters_;
};

/// Work that is no more than bytes: a launch, a product, a copy. The memory of one that is done serves the next.
struct Plain {
  static constexpr std::size_t capacity = limits::kernel_argument_bytes + 128;

  Result<void> (*call)(const void*) = nullptr;
  alignas(std::max_align_t) std::array<std::byte, capacity> bytes;
};

/// Work that holds something, or that others have to do with: exactly one function or record is set.
struct Task {
  std::function<Result<void>()> run;
  std::shared_ptr<Record> wait_for;
  std::function<void(Result<void>)> callback;
  /// Somebody may look for its end without waiting for the stream: it begins at once.
  bool prompt = false;
};

/// One piece of queued work: exactly one of both.
struct Op {
  std::unique_ptr<Plain> plain;
  std::unique_ptr<Task> task;

  /// Whether it is done by a call that nobody has to hear of.
  [[nodiscard]] bool is_call() const noexcept {
    return plain != nullptr || task->run;
  }
};

/// idle -> ready (queued for a thread) -> running -> idle | ready | parked (waits for a record) -> ready
enum class StreamState : std::uint8_t { idle, ready, running, parked };

/// A stream. All members are guarded by the mutex of its core; `completed` may be looked at without it.
struct HostStream {
  std::deque<Op> ops;
  StreamState state = StreamState::idle;
  std::uint64_t submitted = 0;
  std::atomic<std::uint64_t> completed{0};
  /// The least count of completed ops that somebody sleeps for.
  std::uint64_t awaited = nobody;
  std::optional<Error> error;
  /// Since when it is ready, and whether a thread was requested for it since.
  TimePoint ready_since{};
  bool requested = false;

  static constexpr auto nobody = std::numeric_limits<std::uint64_t>::max();
};

/// Whether there is work that nobody has begun, and for how long: too long, or not yet.
enum class Lateness : std::uint8_t { none, early, late };

/// Runs the streams of one backend on at most `permits` threads at any instant.
///
/// A permit is held by whoever runs work: a thread of the pool, or a caller of `synchronize`, which does the work
/// itself instead of sleeping. A thread that runs a loop shares it with other threads only if they come by themselves
/// and hold permits of their own, so that no thread ever waits for one that has not started: nothing can deadlock.
///
/// A few short ops are not worth a thread's waking, which takes longer than they do: they are left for a moment to the
/// caller, who mostly comes and waits. What nobody has come for after that a thread does.
class Core : public std::enable_shared_from_this<Core> {
  using Lock = std::unique_lock<std::mutex>;

public:
  Core(Pool& pool, int permits);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  [[nodiscard]] int permits() const noexcept {
    return permits_;
  }

  HostStream* make_stream();
  /// Waits for its work first.
  void destroy_stream(HostStream* stream);

  void submit(HostStream* stream, Task task);
  /// As above, for a callable that is a few bytes; without an allocation, mostly.
  template <class F>
  void submit_plain(HostStream* stream, const F& work) {
    static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= Plain::capacity
                  && std::is_same_v<std::invoke_result_t<const F&>, Result<void>>);
    Op op;
    Lock lock{mutex_};
    op.plain = take_plain();
    new (op.plain->bytes.data()) F(work);
    op.plain->call = [](const void* bytes) { return (*static_cast<const F*>(bytes))(); };
    push(stream, std::move(op));
  }
  Result<void> synchronize(HostStream* stream);
  /// Waits for the work of all streams, whose errors stay to be reported.
  void drain();
  /// Runs `action` once all work queued so far, on whatever stream, is done, and so are `others`: now, if there is
  /// none. Any thread.
  void after_all(std::function<void()> action, std::vector<std::shared_ptr<Record>> others = {});

  /// Continues a stream that was parked on a record. Any thread.
  void resume(HostStream* stream);

  /// Calls `body(0) ... body(chunks - 1)`, each once, and returns when all are done. Only from inside queued work;
  /// `body` does not throw.
  void parallel(std::size_t chunks, const std::function<void(std::size_t)>& body);

  /// Does what there is to do as long as there is a permit. Called by the pool's threads.
  void work();

  /// Whether a thread has to come for what was queued. Called by the pool's threads, for who asked for it.
  Lateness lateness();

private:
  /// A loop that other threads may join.
  struct Loop {
    const std::function<void(std::size_t)>* body;
    std::size_t chunks;
    std::atomic<std::size_t> next{0};
    int helpers = 0;
  };

  std::unique_ptr<Plain> take_plain();
  /// Whether there is leave to keep one more.
  bool may_keep();
  /// `submit` with the mutex held.
  void push(HostStream* stream, Op op);
  void make_ready(HostStream* stream);
  /// Sees to it that a thread comes for a stream that is ready: now, or when nobody else does.
  void request(HostStream* stream, bool now);

  /// Waits until `stream` has completed `target` pieces, doing them itself where it can.
  void await(HostStream* stream, std::uint64_t target, Lock& lock);
  /// Runs ops of a stream that was taken out of `ready_`, under a permit, until it is parked, has no more or has
  /// completed `until`; with `share` also until another stream wants its turn.
  void run(HostStream* stream, std::uint64_t until, bool share, Lock& lock);
  /// Runs one op, or several plain ones of which nobody has to hear in between. False when the stream is parked.
  bool step(HostStream* stream, std::uint64_t until, Lock& lock);
  bool run_some(HostStream* stream, std::size_t count, Lock& lock);
  void help(Loop& loop, Lock& lock);
  Loop* open_loop();
  /// Counts ops as completed, and wakes who sleeps for that: for nothing else, as each waking takes the processor from
  /// those who work.
  void complete(HostStream* stream, std::uint64_t count);
  void signal();

  Pool& pool_;
  std::shared_ptr<Leave> leave_;
  const int permits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int used_ = 0;
  std::deque<HostStream*> ready_;
  /// For the next ones.
  std::vector<std::unique_ptr<Plain>> plains_;
  /// How many of them may be kept; the first few always, the others by leave of the pool.
  std::size_t kept_plains_ = 0;
  /// Whether `ready_` has any, for who looks without the mutex.
  std::atomic<bool> others_wait_{false};
  /// The pool looks for late work here.
  bool looked_after_ = false;
  std::vector<Loop*> loops_;
  std::vector<std::unique_ptr<HostStream>> streams_;
  /// Of `streams_`: waits for the others of `after_all`. Made when it is first needed.
  HostStream* service_ = nullptr;
};

} // namespace gpuactors::host
