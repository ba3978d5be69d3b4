// The two ends of work in flight: the future that a program holds, and the entry in the request port that its answer
// completes, in one object. Plumbing behind Cluster and ActorRef.
#pragma once

#include <gpuactors/base/future.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/queued_task.hpp>
#include <gpuactors/trace/span.hpp>
#include <gpuactors/wire/call.hpp>
#include <gpuactors/wire/pending_reply.hpp>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

namespace gpuactors {

struct MethodType;

} // namespace gpuactors

namespace gpuactors::detail {

struct ActorCell;
struct ActorLife;
class ClusterCore;
class TaskDispatcher;

/// Converts a payload to the caller's type: a message, or the payload itself.
template <class T>
Result<T> decode(Result<Payload> payload) {
  if constexpr (std::is_same_v<T, Payload>) {
    return payload;
  } else {
    if (!payload)
      return fail(payload.error());
    return std::move(*payload).template take_as<T>();
  }
}

/// Work whose answer is a payload. Its future is completed by the answer, the deadline or the cancellation, whichever
/// is first.
class PendingWork : public PendingReply {
public:
  PendingWork() = default;
  PendingWork(const PendingWork&) = delete;
  PendingWork& operator=(const PendingWork&) = delete;
  ~PendingWork() override;

  /// Makes `call` a part of the span that this thread works for, and begins the span of the wait for its answer. Call
  /// it before the call is sent.
  /// @param actor the reference, for a call of an actor; null for a task.
  void begin_span(Call& call, const ActorCell* actor);

  [[nodiscard]] bool knows_not_begun() const noexcept override {
    return true;
  }

  /// Completes the future; no effect if it is complete already. Any thread.
  virtual void finish(Result<Payload> result) = 0;

  /// Returns whether the future is complete. Any thread.
  [[nodiscard]] virtual bool finished() const noexcept = 0;

  /// As `FutureCore::refuse_own_wait`.
  void refuse_own_wait() {
    // nop
  }

protected:
  /// Ends the span of the work. Any thread; the first end counts.
  void end_span(const Result<Payload>& result) {
    if (span_.load(std::memory_order_relaxed) != nullptr)
      close_span(result);
  }

private:
  void close_span(const Result<Payload>& result);

  /// Null if the work is not traced.
  std::atomic<OpenSpan*> span_{nullptr};
};

/// A task: waiting -> running -> over. The runner's answer frees the lease for the next task.
class PendingTask : public PendingWork, public QueuedTask, public std::enable_shared_from_this<PendingTask> {
public:
  void on_reply(MessageContent& content) final;
  void on_error(Error error) final;

  /// Keeps the task from starting, or asks it to stop; completes the future with `cancelled`.
  void withdraw(Cancel how);

  /// Allows the producer of the stream `items` more items.
  void grant_credit(std::uint32_t items);

  /// Returns the cluster's thread for callbacks; null if the cluster is closed, or the task was never submitted.
  [[nodiscard]] std::shared_ptr<Executor> executor() const;

  [[nodiscard]] bool finished() const noexcept override = 0;

  /// For the dispatcher; set before the task is submitted.
  std::weak_ptr<ClusterCore> core;
  Call call;

private:
  friend class TaskDispatcher;

  std::weak_ptr<TaskDispatcher> dispatcher_;
  // How long the task may wait in the queue, each time that it is queued.
  std::optional<Duration> queue_timeout_;
  // The port's timers for the deadline and the queue timeout; set before the task is queued.
  std::array<RequestTicket, 2> timers_{};
  // Guarded by the dispatcher's mutex: the task's entry in the port.
  RequestTicket ticket_ = 0;
};

/// A call of an actor's method.
class PendingCall : public PendingWork, public std::enable_shared_from_this<PendingCall> {
public:
  ~PendingCall() override;

  void on_reply(MessageContent& content) final;
  void on_error(Error error) final;
  [[nodiscard]] Error overdue() const final;

  /// Keeps the call from being served, or asks the method to stop; completes the future with `cancelled`.
  /// `Cancel::force` also works on a call that was withdrawn without force.
  void withdraw(Cancel how);

  /// Allows the producer of the stream `items` more items.
  void grant_credit(std::uint32_t items);

  /// As `FutureCore::refuse_own_wait`: the thread is that of the actor that is called.
  void refuse_own_wait();

  /// Returns the cluster's thread for callbacks; null if the cluster is closed, or there is no actor.
  [[nodiscard]] std::shared_ptr<Executor> executor() const;

private:
  friend class CallStarter;

  void let_go();
  /// Says which actor an error of a lost process is about, and where it lived: the text comes from whoever has noticed.
  [[nodiscard]] Error named(Error error);
  /// Takes the call out of the actor's count of waiting calls.
  void uncount() noexcept;
  void ask_to_stop(Cancel how);

  std::shared_ptr<ActorCell> cell_;
  /// What is called, if this program knows it; lives as long as the cell's type.
  const MethodType* method_ = nullptr;
  // The call, kept while it may have to be sent again.
  Call call_;
  int retries_left_ = 0;
  /// Look-ups in a row that did not find the actor; used by one look-up at a time.
  int empty_looks_ = 0;
  /// Why the last of these look-ups failed.
  std::string unreached_;
  std::atomic<bool> withdrawn_{false};
  std::atomic<bool> counted_{false};
  std::mutex mutex_;
  // Guarded by the mutex: where the call was sent.
  RequestTicket ticket_ = 0;
  CallId id_;
  LeaseId lease_;
  std::shared_ptr<const ActorLife> life_;
};

/// Repeats a call if its actor's death ended it and it has retries left; defined in `actor_ref.cpp`. @returns whether
/// it does.
bool retry_call(const std::shared_ptr<PendingCall>& pending, const Error& error);

/// A future and its work in one object.
template <class T, class Work>
class WorkState final : public FutureState<T>, public Work {
public:
  void finish(Result<Payload> result) override {
    this->end_span(result);
    this->complete(decode<T>(std::move(result)));
  }

  [[nodiscard]] bool finished() const noexcept override {
    return this->ready();
  }

  void cancel(Cancel how) override {
    this->withdraw(how);
  }

  void refuse_own_wait() override {
    Work::refuse_own_wait();
  }
};

/// The reader's interface to a streamed reply, independent of the kind of work.
template <class T>
class StreamSource {
public:
  virtual ~StreamSource() = default;

  /// Returns the next item, nothing at the end, or `deadline_exceeded` if neither came in time.
  virtual Result<std::optional<T>> next(TimePoint deadline) = 0;

  /// Returns whether `next` would not wait.
  [[nodiscard]] virtual bool ready() const = 0;

  /// Calls `function` once when `next` would not wait.
  virtual void when_ready(std::function<void()> function) = 0;

  /// Asks the producer to stop.
  virtual void stop() = 0;
};

/// A streamed reply on the caller's side: the items that arrived and how it ended.
template <class T, class Work>
class StreamState final : public Work, public StreamSource<T> {
public:
  void on_item(Payload item) override {
    std::unique_lock lock{mutex_};
    items_.push_back(std::move(item));
    wake_.notify_one();
    call_back(std::move(lock));
  }

  void finish(Result<Payload> result) override {
    this->end_span(result);
    std::unique_lock lock{mutex_};
    if (end_)
      return;
    end_.emplace(std::move(result));
    wake_.notify_all();
    call_back(std::move(lock));
  }

  [[nodiscard]] bool finished() const noexcept override {
    const std::lock_guard lock{mutex_};
    return end_.has_value();
  }

  Result<std::optional<T>> next(TimePoint deadline) override;

  [[nodiscard]] bool ready() const override {
    const std::lock_guard lock{mutex_};
    return !items_.empty() || end_;
  }

  void when_ready(std::function<void()> function) override {
    std::unique_lock lock{mutex_};
    when_ready_.swap(function); // the last one is destroyed without the lock
    if (!items_.empty() || end_)
      call_back(std::move(lock));
  }

  void stop() override {
    this->withdraw(Cancel::ask);
  }

private:
  /// Posts the function of `when_ready`, if there is one, to the callback thread. Called with the lock, which it
  /// releases.
  void call_back(std::unique_lock<std::mutex> lock) {
    if (!when_ready_)
      return;
    auto function = std::exchange(when_ready_, {});
    lock.unlock();
    const auto executor = this->executor();
    // Moved: what the function owns must not be destroyed on the thread that brings the item.
    if (const auto back = executor != nullptr ? executor->post(std::move(function)) : std::move(function))
      back();
  }

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void()> when_ready_;
  std::deque<Payload> items_;
  std::optional<Result<Payload>> end_;
  std::uint32_t taken_ = 0;
  std::size_t taken_bytes_ = 0;
};

template <class T, class Work>
Result<std::optional<T>> StreamState<T, Work>::next(TimePoint deadline) {
  std::unique_lock lock{mutex_};
  const auto decided = [this] { return !items_.empty() || end_.has_value(); };
  if (!decided() && is_more_than_a_look(deadline)) {
    lock.unlock();
    this->refuse_own_wait();
    lock.lock();
  }
  if (!wait_on(wake_, lock, deadline, decided)) {
    if (deadline > Clock::now())
      return wait_ended();
    return fail(Errc::deadline_exceeded, "no item of the stream came within the time given to next()");
  }
  if (items_.empty()) {
    if (!*end_)
      return fail(end_->error());
    return std::optional<T>{};
  }
  auto item = std::move(items_.front());
  items_.pop_front();
  // Credit is returned in halves of the window, or for less than a half of its bytes: the producer rarely waits, and
  // messages are few.
  taken_bytes_ += item.wire_size();
  const bool refill = ++taken_ >= limits::stream_window / 2 || taken_bytes_ >= limits::stream_window_bytes / 4;
  const auto credit = taken_;
  if (refill) {
    taken_ = 0;
    taken_bytes_ = 0;
  }
  lock.unlock();
  if (refill)
    this->grant_credit(credit);
  GPUACTORS_LET(message, decode<T>(std::move(item)));
  return std::optional<T>{std::move(message)};
}

} // namespace gpuactors::detail
