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
class Allowance;
class Pool;
struct HostStream;

/// One recording of an event: done once the stream has passed the point. Any thread.
class Record {
public:
  [[nodiscard]] bool done() const;

  /// Returns whether the record is done. If it is not, `core` resumes `stream` once it is.
  bool await(std::shared_ptr<Core> core, HostStream* stream);

  void complete();

private:
  mutable std::mutex mutex_;
  bool done_ = false;
  std::vector<std::pair<std::shared_ptr<Core>, HostStream*>> waiters_;
};

/// Work whose data is plain bytes: a launch, a product, a copy. Its memory is reused for later work.
struct Plain {
  static constexpr std::size_t capacity = limits::kernel_argument_bytes + 128;

  Result<void> (*call)(const void*) = nullptr;
  alignas(std::max_align_t) std::array<std::byte, capacity> bytes;
};

/// Work that owns something or that others take part in. Exactly one of `run`, `wait_for` and `callback` is set.
struct Task {
  std::function<Result<void>()> run;
  std::shared_ptr<Record> wait_for;
  std::function<void(Result<void>)> callback;
  /// The work begins at once, because somebody may poll for its end without waiting for the stream.
  bool prompt = false;
};

/// One piece of queued work: exactly one of the two members is set.
struct Op {
  std::unique_ptr<Plain> plain;
  std::unique_ptr<Task> task;

  /// Returns whether the op is only a call, which neither waits nor reports.
  [[nodiscard]] bool is_call() const noexcept {
    return plain != nullptr || task->run;
  }
};

/// idle -> ready (queued for a thread) -> running -> idle | ready | parked (waits for a record) -> ready
enum class StreamState : std::uint8_t { idle, ready, running, parked };

/// A stream. The mutex of its core guards all members; `completed` may be read without it.
struct HostStream {
  std::deque<Op> ops;
  StreamState state = StreamState::idle;
  std::uint64_t submitted = 0;
  std::atomic<std::uint64_t> completed{0};
  /// The lowest number of completed ops that a sleeping thread waits for.
  std::uint64_t awaited = nobody;
  std::optional<Error> error;
  /// What is captured instead of queued; empty: nothing is.
  std::optional<std::vector<std::unique_ptr<Plain>>> captured;
  /// When the stream became ready, and whether a thread was requested for it since.
  TimePoint ready_since{};
  bool requested = false;

  static constexpr auto nobody = std::numeric_limits<std::uint64_t>::max();
};

/// Whether ready work waits that nobody has begun: `late` if for too long, else `early`.
enum class Lateness : std::uint8_t { none, early, late };

/// Runs the streams of one backend on at most `permits` threads at any instant.
///
/// Whoever runs work holds a permit: a thread of the pool, or a caller of `synchronize`, which does the work itself
/// instead of sleeping. Other threads help with a loop only if they come by themselves and hold permits of their own,
/// so no thread ever waits for one that has not started: nothing can deadlock.
///
/// Waking a thread takes longer than a few short ops do. Such ops are left for a moment to the caller, who usually
/// comes to wait and does them; after that, a thread of the pool does them.
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
  /// Waits for the stream's work, then destroys the stream.
  void destroy_stream(HostStream* stream);

  void submit(HostStream* stream, Task task);
  /// Submits a trivially copyable callable of a few bytes, usually without an allocation.
  template <class F>
  void submit_plain(HostStream* stream, const F& work) {
    static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= Plain::capacity
                  && std::is_same_v<std::invoke_result_t<const F&>, Result<void>>);
    Op op;
    Lock lock{mutex_};
    op.plain = take_plain();
    new (op.plain->bytes.data()) F(work);
    op.plain->call = [](const void* bytes) { return (*static_cast<const F*>(bytes))(); };
    if (stream->captured) [[unlikely]]
      stream->captured->push_back(std::move(op.plain));
    else
      push(stream, std::move(op));
  }

  /// From now on, plain work of the stream is captured. Returns whether it was not before.
  bool begin_capture(HostStream* stream);
  std::vector<std::unique_ptr<Plain>> end_capture(HostStream* stream);

  Result<void> synchronize(HostStream* stream);
  /// Waits for the work of all streams. Does not report their errors: `synchronize` still does.
  void drain();
  /// Runs `action` once all work queued so far, on any stream, and all records in `others` are done; at once if they
  /// are done already. Any thread.
  void after_all(std::function<void()> action, std::vector<std::shared_ptr<Record>> others = {});

  /// Continues a stream that was parked on a record. Any thread.
  void resume(HostStream* stream);

  /// Calls `body(0) ... body(chunks - 1)`, each once, and returns when all are done. Only from inside queued work;
  /// `body` does not throw.
  void parallel(std::size_t chunks, const std::function<void(std::size_t)>& body);

  /// Runs ready work while there is a free permit. Called by the pool's threads.
  void work();

  /// Returns whether a thread has to come for queued work. Called by the pool's threads after `Pool::request_late`.
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
  /// Returns whether one more `Plain` may be kept for reuse.
  bool may_keep();
  /// Queues `op`. Called with the mutex held.
  void push(HostStream* stream, Op op);
  void make_ready(HostStream* stream);
  /// Makes sure that a thread comes for a ready stream: now, or only if nobody else does.
  void request(HostStream* stream, bool now);
  /// Requests a thread where nobody can be told that the device gets none: what is ready then waits for the next
  /// request or for a caller that does it. Returns whether one comes.
  bool try_request();

  /// Waits until `stream` has completed `target` ops; the caller runs them itself where it can.
  void await(HostStream* stream, std::uint64_t target, Lock& lock);
  /// Runs ops of a stream that was taken out of `ready_`, under a permit, until the stream is parked, has no more ops
  /// or has completed `until` ops; with `share`, also until another stream wants its turn.
  void run(HostStream* stream, std::uint64_t until, bool share, Lock& lock);
  /// Runs one op, or several that are only calls. Returns false if the stream is parked.
  bool step(HostStream* stream, std::uint64_t until, Lock& lock);
  bool run_some(HostStream* stream, std::size_t count, Lock& lock);
  void help(Loop& loop, Lock& lock);
  Loop* open_loop();
  /// Counts ops as completed. Wakes sleepers only once the number that one waits for is reached, because each wake-up
  /// takes the processor from the threads at work.
  void complete(HostStream* stream, std::uint64_t count);
  void signal();

  Pool& pool_;
  std::shared_ptr<Allowance> allowance_;
  const int permits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int used_ = 0;
  std::deque<HostStream*> ready_;
  /// Memory for the next plain ops.
  std::vector<std::unique_ptr<Plain>> plains_;
  /// How many `plains_` may be kept: the first few always, more within the pool's `Allowance`.
  std::size_t kept_plains_ = 0;
  /// Whether `ready_` is not empty, for readers without the mutex.
  std::atomic<bool> others_wait_{false};
  /// Whether the pool looks for late work in this core.
  bool looked_after_ = false;
  std::vector<Loop*> loops_;
  std::vector<std::unique_ptr<HostStream>> streams_;
  /// One of `streams_`, which waits for the `others` of `after_all`. Created when it is first needed.
  HostStream* service_ = nullptr;
};

} // namespace gpuactors::host
