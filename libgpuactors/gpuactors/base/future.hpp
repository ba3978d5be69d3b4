// Future<T> and Promise<T>: a result that comes later, with waiting, polling, callbacks and cancellation.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/executor.hpp>
#include <gpuactors/base/result.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors {

/// How work is to be cancelled.
enum class Cancel : std::uint8_t {
  /// Ask the work to stop (`stop_requested`).
  ask,
  /// End the process of the work, if it has one of its own.
  force,
};

namespace detail {

/// The state shared by both ends, except the value: readiness, waiting, callbacks.
class FutureCore {
public:
  virtual ~FutureCore();
  FutureCore() = default;
  FutureCore(const FutureCore&) = delete;
  FutureCore& operator=(const FutureCore&) = delete;

  [[nodiscard]] bool ready() const noexcept {
    return ready_.load(std::memory_order_acquire);
  }

  /// Blocks until ready or `deadline`; returns whether it is ready.
  bool wait_until(TimePoint deadline);

  /// Runs `observer` once when ready, on the completing thread (at once if already ready): it must only post.
  /// @returns a number for `forget`; 0 when it ran at once.
  std::uint64_t on_ready(std::function<void()> observer);

  /// Takes an observer back, unless it is running or has run. Without it, a program that waits for one of many futures
  /// again and again would leave an observer on each of them every time.
  void forget(std::uint64_t observer);

  /// Asks the producer to stop. Does nothing by default.
  virtual void cancel(Cancel how);

  /// The executor for the function of `Future::then`; null means the completing thread.
  std::shared_ptr<Executor> executor;

  /// Whether a thread of this process is expected to produce the answer; if so, a waiter polls longer before it sleeps.
  bool near = false;

protected:
  /// Claims the right to complete; false if it was claimed before.
  bool claim() noexcept {
    return !claimed_.exchange(true, std::memory_order_acq_rel);
  }

  /// Publishes the value written since `claim`.
  void publish();

private:
  std::atomic<bool> claimed_{false};
  std::atomic<bool> ready_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  int waiters_ = 0;
  std::uint64_t last_observer_ = 0;
  std::vector<std::pair<std::uint64_t, std::function<void()>>> observers_;
};

template <class T>
class FutureState : public FutureCore {
public:
  /// Completes the future; returns false if it was already complete. Any thread.
  bool complete(Result<T> result) {
    if (!claim())
      return false;
    result_.emplace(std::move(result));
    publish();
    return true;
  }

  /// Moves the result out; only after `ready()`, only once.
  virtual Result<T> take() {
    return std::move(*result_);
  }

private:
  std::optional<Result<T>> result_;
};

/// The error of a future whose result was taken.
[[nodiscard]] Failure taken_already();

/// Writes the exception that is being handled to standard error.
void report_exception() noexcept;

/// What `function(T)` makes, without the `Result` around it.
template <class F, class T>
struct MadeByCall {
  using Type = std::remove_cvref_t<std::invoke_result_t<F&, T>>;
};
template <class F>
struct MadeByCall<F, void> {
  using Type = std::remove_cvref_t<std::invoke_result_t<F&>>;
};
template <class T>
struct WithoutResult {
  using Type = T;
};
template <class T>
struct WithoutResult<Result<T>> {
  using Type = T;
};
template <class F, class T>
using MadeBy = typename WithoutResult<typename MadeByCall<F, T>::Type>::Type;

/// Calls `function` with the value of `result`, or passes the error on.
template <class Made, class F, class T>
Result<Made> made_by(F& function, Result<T> result) {
  if (!result)
    return fail(result.error());
  const auto call = [&]() -> decltype(auto) {
    if constexpr (std::is_void_v<T>)
      return function();
    else
      return function(std::move(*result));
  };
  try {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return {};
    } else {
      return call();
    }
  } catch (const FailedResult& failed) {
    return fail(failed.error());
  } catch (const std::exception& exception) {
    return fail(Errc::task_failed, std::string{"the function of a future threw an exception: "} + exception.what());
  } catch (...) {
    return fail(Errc::task_failed, "the function of a future threw an exception of no standard type");
  }
}

/// Calls a function given to `then`. What it throws has nobody else to catch it: it becomes a line on standard error.
template <class F, class T>
void call_back(F& function, Result<T> result) noexcept {
  try {
    function(std::move(result));
  } catch (...) {
    report_exception();
  }
}

/// The state of a future that is made from another: ready with it, and made when it is taken. So it needs no thread to
/// be made on, and whoever waits for it cannot be in the way of that.
template <class Made, class T, class F>
class TransformState : public FutureState<Made> {
public:
  static std::shared_ptr<TransformState> make(std::shared_ptr<FutureState<T>> source, F function) {
    auto state = std::make_shared<TransformState>(std::move(source), std::move(function));
    // Weak: a future that nobody wants is not kept.
    state->source_->on_ready([weak = std::weak_ptr<TransformState>{state}] {
      if (const auto self = weak.lock(); self != nullptr && self->claim())
        self->publish();
    });
    return state;
  }

  TransformState(std::shared_ptr<FutureState<T>> source, F function)
    : source_(std::move(source)), function_(std::move(function)) {
    this->executor = source_->executor;
    this->near = source_->near;
  }

  Result<Made> take() override {
    // What the function owns is destroyed here, not where this state is destroyed.
    auto function = std::move(function_);
    return made_by<Made>(function, source_->take());
  }

  void cancel(Cancel how) override {
    source_->cancel(how);
  }

private:
  std::shared_ptr<FutureState<T>> source_;
  F function_;
};

} // namespace detail

/// The receiving end: exactly one `Result<T>` arrives, and it can be taken once.
///
/// Movable; destroying a future does not cancel the work. One thread at a time, except `cancel`, which any thread may
/// call. Threads of the program, tasks and actors may block in `get`; no other thread is needed to wake them.
template <class T>
class [[nodiscard]] Future {
public:
  using value_type = T;

  Future() = default;

  explicit Future(std::shared_ptr<detail::FutureState<T>> state) : state_(std::move(state)) {
    // nop
  }

  /// Creates a future that is ready with `result`.
  static Future ready_with(Result<T> result) {
    auto state = std::make_shared<detail::FutureState<T>>();
    state->complete(std::move(result));
    return Future{std::move(state)};
  }

  /// Returns whether there is a result to wait for; false after it was taken.
  [[nodiscard]] bool valid() const noexcept {
    return state_ != nullptr;
  }

  /// Returns whether `get` would return at once.
  [[nodiscard]] bool ready() const noexcept {
    return state_ != nullptr && state_->ready();
  }

  /// Waits at most `timeout` and leaves the result where it is: `deadline_exceeded` of a later `get` is an error of the
  /// work, and not the end of one's own patience.
  /// @returns whether `get` now returns at once.
  [[nodiscard]] bool wait(Duration timeout) const {
    return state_ == nullptr || state_->wait_until(deadline_after(Clock::now(), timeout));
  }

  /// Waits for the result and takes it. For a call with a deadline, the result arrives by then at the latest.
  Result<T> get() {
    return get_until(never);
  }

  /// Waits at most `timeout`; then returns `deadline_exceeded`, and `get` may be called again.
  Result<T> get(Duration timeout) {
    return get_until(deadline_after(Clock::now(), timeout));
  }

  /// Calls `function(Result<T>)` once with the result, on the cluster's callback thread, and destroys it there.
  /// Consumes the future. Without a result to wait for, the function gets `invalid_argument` at once. After the end of
  /// the cluster it runs on whatever thread brings the result. An exception that it throws becomes a line on standard
  /// error.
  template <class F>
  void then(F function) && {
    auto state = std::move(state_);
    if (state == nullptr) {
      detail::call_back(function, Result<T>{detail::taken_already()});
      return;
    }
    auto* core = state.get();
    auto run = [state = std::move(state), function = std::move(function)]() mutable {
      detail::call_back(function, state->take());
    };
    if (auto executor = core->executor)
      core->on_ready([executor, run = std::make_shared<decltype(run)>(std::move(run))]() mutable {
        // Moved, not copied: what the function owns must not be destroyed on the completing thread, which may be one
        // that the cluster waits for at its end. After that end there is no thread for callbacks any more.
        if (const auto back = executor->post([run = std::move(run)] { (*run)(); }))
          back();
      });
    else
      core->on_ready([run = std::make_shared<decltype(run)>(std::move(run))] { (*run)(); });
  }

  /// Returns a future of what `function(T)` makes of the value: a value, a `Result` or nothing. Errors pass by it, and
  /// an exception of it is an error. The function runs when the result is taken, where it is taken: in `get`, or before
  /// the function of `then`. Cancelling the returned future withdraws the work. Consumes this future.
  template <class F>
  [[nodiscard]] auto transform(F function) && {
    using Made = detail::MadeBy<F, T>;
    if (state_ == nullptr)
      return Future<Made>::ready_with(detail::taken_already());
    return Future<Made>{detail::TransformState<Made, T, F>::make(std::move(state_), std::move(function))};
  }

  /// Withdraws the work: waiting work does not start, running work is asked to stop. The future is then ready with
  /// `cancelled`, unless the result came first.
  ///
  /// @param how `Cancel::force` ends the work's process, if it has its own (`Isolation::process`); an actor restarts if
  ///        it has restarts left. In a shared process it means the same as `Cancel::ask`. You may call it after
  ///        `Cancel::ask` had no effect, as long as the result was not taken.
  void cancel(Cancel how = Cancel::ask) {
    if (state_ != nullptr)
      state_->cancel(how);
  }

  /// Returns the shared state, for code that builds on futures (wait sets, adapters).
  [[nodiscard]] const std::shared_ptr<detail::FutureState<T>>& state() const noexcept {
    return state_;
  }

private:
  Result<T> get_until(TimePoint deadline) {
    if (state_ == nullptr)
      return detail::taken_already();
    if (!state_->wait_until(deadline))
      return fail(Errc::deadline_exceeded, "the result did not come within the time given to get()");
    auto state = std::move(state_);
    return state->take();
  }

  std::shared_ptr<detail::FutureState<T>> state_;
};

/// The producing end. A promise that is destroyed without a result completes its future with `task_failed`.
template <class T>
class Promise {
public:
  Promise() : state_(std::make_shared<detail::FutureState<T>>()) {
    // nop
  }

  Promise(Promise&&) noexcept = default;

  Promise& operator=(Promise&& other) noexcept {
    if (this != &other) {
      abandon();
      state_ = std::move(other.state_);
    }
    return *this;
  }

  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  ~Promise() {
    abandon();
  }

  /// Returns the future; call once.
  [[nodiscard]] Future<T> future() const {
    return Future<T>{state_};
  }

  /// Completes the future; returns false if it was already complete, or if the promise was moved from. Any thread.
  bool set(Result<T> result) {
    return state_ != nullptr && state_->complete(std::move(result));
  }

private:
  void abandon() noexcept {
    if (state_ != nullptr && !state_->ready())
      state_->complete(fail(Errc::task_failed, "the promise was dropped without a result"));
  }

  std::shared_ptr<detail::FutureState<T>> state_;
};

namespace detail {

/// Waits until at least `wanted` of `cores` are ready or until `deadline`; returns the indices of the ready ones.
std::vector<std::size_t> wait_for(const std::vector<FutureCore*>& cores, std::size_t wanted, TimePoint deadline);

} // namespace detail

/// Waits until at least `wanted` of `futures` are ready, at most `timeout`; returns the indices of all ready ones, in
/// order. Futures stay valid. Invalid futures are never ready. Any thread of the program, task or actor.
template <class T>
std::vector<std::size_t> wait(const std::vector<Future<T>>& futures, std::size_t wanted = 1,
                              Duration timeout = Duration::max()) {
  std::vector<detail::FutureCore*> cores;
  cores.reserve(futures.size());
  for (const auto& future : futures)
    cores.push_back(future.state().get());
  return detail::wait_for(cores, wanted, deadline_after(Clock::now(), timeout));
}

/// Waits for `futures` in their order, at most `timeout` in all, and takes their values.
/// @returns the values in that order (nothing for futures of `void`), or the first error that it meets; the futures
///          after that one keep their results. After `timeout`, `deadline_exceeded`. Any thread of the program, task or
///          actor.
template <class T>
[[nodiscard]] auto get_all(std::vector<Future<T>>& futures, Duration timeout = Duration::max()) {
  const auto deadline = deadline_after(Clock::now(), timeout);
  const auto next = [deadline](Future<T>& future) {
    return deadline == never ? future.get() : future.get(std::max(deadline - Clock::now(), Duration::zero()));
  };
  if constexpr (std::is_void_v<T>) {
    for (auto& future : futures)
      if (auto done = next(future); !done)
        return done;
    return Result<void>{};
  } else {
    std::vector<T> values;
    values.reserve(futures.size());
    for (auto& future : futures) {
      auto value = next(future);
      if (!value)
        return Result<std::vector<T>>{fail(value.error())};
      values.push_back(std::move(*value));
    }
    return Result<std::vector<T>>{std::move(values)};
  }
}

/// The same for futures that nobody needs afterwards: `get_all(submit_them())`.
template <class T>
[[nodiscard]] auto get_all(std::vector<Future<T>>&& futures, Duration timeout = Duration::max()) {
  return get_all(futures, timeout);
}

} // namespace gpuactors
