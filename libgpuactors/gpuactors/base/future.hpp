// Future<T> and Promise<T>: a result that comes later, with waiting, polling, callbacks and cancellation.
#pragma once

#include <gpuactors/base/future_state.hpp>
#include <gpuactors/base/wait_end.hpp>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors {

/// The receiving end: exactly one `Result<T>` arrives, and it can be taken once.
///
/// Movable; destroying a future does not cancel the work. One thread at a time, except `cancel`, which any thread may
/// call as long as the future is not moved or destroyed, even while another thread waits. Threads of the program, tasks
/// and actors may block in `get`; no other thread is needed to wake them.
template <class T>
class [[nodiscard]] Future {
public:
  using value_type = T;

  Future() = default;
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  explicit Future(std::shared_ptr<detail::FutureState<T>> state) : slot_(std::move(state)) {
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
    return state() != nullptr;
  }

  /// Returns whether the result is there to be taken, so that `get` returns it at once; false after it was taken.
  [[nodiscard]] bool ready() const noexcept {
    return valid() && state()->ready();
  }

  /// Waits at most `timeout` without taking the result, so that a `deadline_exceeded` of a later `get` is an error of
  /// the work and not of this wait. May end early, as `get` does. In an actor, a wait of more than a second for a call
  /// of itself withdraws that call: `get` then returns `invalid_argument`.
  /// @returns whether `get` would return at once; true also for a future whose result was taken.
  [[nodiscard]] bool wait(Duration timeout) const {
    return state() == nullptr || state()->wait_until(deadline_after(Clock::now(), timeout));
  }

  /// Waits for the result and takes it. For a call with a deadline, the result arrives by then at the latest.
  ///
  /// In a task or actor that was asked to end, a wait that still goes on when most of the grace is over returns
  /// `lease_revoked`, so that the process need not be ended with everything in it; `get` may be called again. An actor
  /// that waits for more than a second for a call of itself, which it could only serve afterwards, gets
  /// `invalid_argument`, and the call is withdrawn.
  Result<T> get() {
    return get_until(never);
  }

  /// Like `get()`, but waits at most `timeout`; then returns `deadline_exceeded`, and `get` may be called again. For an
  /// actor's calls of itself: as `wait` says.
  Result<T> get(Duration timeout) {
    return get_until(deadline_after(Clock::now(), timeout));
  }

  /// Calls `function(Result<T>)` once with the result, on the cluster's callback thread, and destroys the function
  /// there. Consumes the future. If the result was taken before, the function gets `invalid_argument` at once. After
  /// the end of the cluster, and for the future of a `Promise`, the function runs on the thread that delivers the
  /// result, or here if the result is already there. Exceptions are reported on standard error.
  template <class F>
  void then(F function) && {
    auto state = slot_.take();
    if (state == nullptr) {
      detail::call_back(function, Result<T>{detail::taken_already()});
      return;
    }
    auto* core = state.get();
    auto run = [state = std::move(state), function = std::move(function)]() mutable {
      detail::call_back(function, state->take());
    };
    core->on_ready([core, run = std::make_shared<decltype(run)>(std::move(run))]() mutable {
      const auto executor = core->executor;
      if (executor == nullptr)
        return (*run)();
      // Moved, not copied: what the function owns must not be destroyed on the completing thread, which may be one
      // that the cluster waits for at its end. After that end there is no thread for callbacks any more.
      if (const auto back = executor->post([run = std::move(run)] { (*run)(); }))
        back();
    });
  }

  /// Returns a future of the result of `function(T)`: a value, a `Result` or nothing. Errors bypass the function, and
  /// an exception of the function becomes an error. The function runs when and where the result is taken: in `get`, or
  /// before the function of `then`. Cancelling the returned future withdraws the work. Consumes this future.
  template <class F>
  [[nodiscard]] auto transform(F function) && {
    using Made = detail::MadeBy<F, T>;
    if (!valid())
      return Future<Made>::ready_with(detail::taken_already());
    return Future<Made>{detail::TransformState<Made, T, F>::make(slot_.take(), std::move(function))};
  }

  /// Returns the future of follow-up work: `function(T)` starts it, and returns a `Future<U>` or, if it may refuse, a
  /// `Result<Future<U>>`. Errors bypass the function. It runs like a function of `then`, even if nobody waits, so it
  /// must not wait for other callbacks. In an actor, it runs concurrently with methods, perhaps after the actor's end,
  /// and must not use `this`; use `Actor::after` for that. Cancelling the returned future cancels whichever work is
  /// under way. Consumes this future.
  template <class F>
  [[nodiscard]] auto and_then(F function) && {
    using Next = detail::MadeBy<F, T>;
    static_assert(detail::IsFuture<Next>::value, "the function of and_then returns a Future; for values: transform");
    using Made = typename Next::value_type;
    if (!valid())
      return Future<Made>::ready_with(detail::taken_already());
    auto chain = std::make_shared<detail::ChainState<Made>>(state());
    std::move(*this).then([chain, function = std::move(function)](Result<T> first) mutable {
      auto second = detail::made_by<Next>(function, std::move(first));
      if (second && second->valid())
        chain->follow(second->state());
      else
        chain->fail_with(second ? Result<Made>{detail::taken_already()} : Result<Made>{fail(second.error())});
    });
    return Future<Made>{std::move(chain)};
  }

  /// Withdraws the work: waiting work does not start, running work is asked to stop. The future is then ready with
  /// `cancelled`, unless the result came first.
  ///
  /// @param how `Cancel::force` ends the work's process, if it has its own (`Isolation::process`); an actor restarts if
  ///        it has restarts left. In a shared process it means the same as `Cancel::ask`. You may call it after
  ///        `Cancel::ask` had no effect, as long as the result was not taken.
  void cancel(Cancel how = Cancel::ask) {
    // A copy, because a waiting thread may take the result, and end the future, before this returns.
    if (const auto state = slot_.copy())
      state->give_up(how);
  }

  /// Returns the shared state, for code that builds on futures (wait sets, adapters).
  [[nodiscard]] const std::shared_ptr<detail::FutureState<T>>& state() const noexcept {
    return slot_.get();
  }

private:
  Result<T> get_until(TimePoint deadline) {
    if (!valid())
      return detail::taken_already();
    if (!state()->wait_until(deadline))
      return deadline > Clock::now()
                 ? detail::wait_ended()
                 : fail(Errc::deadline_exceeded, "the result did not come within the time given to get()");
    return slot_.take()->take();
  }

  detail::SharedSlot<detail::FutureState<T>> slot_;
};

/// The producing end. A promise that is destroyed without a result completes its future with `task_failed`.
template <class T>
class Promise {
public:
  Promise() : state_(std::make_shared<detail::PromiseState<T>>()) {
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
    return state_ != nullptr && state_->keep(std::move(result));
  }

  /// Returns whether nobody wants the result any more: its future was cancelled, the call that it answers was
  /// withdrawn, or the actor of that call is ending. It may be set all the same. Any thread.
  [[nodiscard]] bool cancelled() const {
    return state_ != nullptr && state_->cancelled();
  }

  /// Registers `function` to be called once when `cancelled` becomes true, on the cancelling thread; at once if it is
  /// true. It must be quick and must not wait, since that may be a library thread. Exceptions are reported on standard
  /// error. The last registered function counts. No call begins after the result was set; one that has begun
  /// before may still run then, so it must own what it uses.
  void on_cancel(std::function<void()> function) {
    if (state_ != nullptr)
      state_->on_cancel(std::move(function));
  }

private:
  void abandon() noexcept {
    if (state_ != nullptr && !state_->ready())
      state_->complete(fail(Errc::task_failed, "the promise was dropped without a result"));
  }

  std::shared_ptr<detail::PromiseState<T>> state_;
};

namespace detail {

/// Waits until at least `wanted` of `cores` are ready or until `deadline`; returns the indices of the ready ones.
std::vector<std::size_t> wait_for(const std::vector<FutureCore*>& cores, std::size_t wanted, TimePoint deadline);

} // namespace detail

/// Waits until at least `wanted` of `futures` are ready, at most `timeout`; returns the indices of all ready ones, in
/// order. Futures stay valid. Invalid futures, whose results were taken, are never ready and not waited for. The
/// indices are fewer than `wanted` when the time is over, when no more futures can become ready, or when the wait ends
/// early, as `Future::get` does. Any thread of the program, task or actor.
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

/// Overload for futures that are not needed afterwards: `get_all(submit_them())`.
template <class T>
[[nodiscard]] auto get_all(std::vector<Future<T>>&& futures, Duration timeout = Duration::max()) {
  return get_all(futures, timeout);
}

/// Returns a future of the values of all `futures`, in their order (of nothing for futures of `void`), or of the first
/// error in that order; it is ready when all of them are. For actors and callbacks, which should not wait. Cancelling
/// it withdraws all the work. Any thread.
template <class T>
[[nodiscard]] auto when_all(std::vector<Future<T>> futures) {
  using Values = typename detail::AllOf<T>::Type;
  std::vector<std::shared_ptr<detail::FutureState<T>>> parts;
  parts.reserve(futures.size());
  for (const auto& future : futures) {
    if (!future.valid())
      return Future<Values>::ready_with(detail::taken_already());
    parts.push_back(future.state());
  }
  return Future<Values>{detail::AllState<T>::make(std::move(parts))};
}

} // namespace gpuactors
