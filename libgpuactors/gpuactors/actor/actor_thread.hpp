// ActorThread: runs functions on the thread of an actor, between its messages.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/future.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <utility>

namespace gpuactors {

namespace detail {

class Posts;

/// Wraps a function that may not be copyable, because it owns a future or a stream.
template <class F>
std::function<void()> as_function(F function) {
  return [kept = std::make_shared<F>(std::move(function))] { (*kept)(); };
}

/// The future result of a function on an actor's thread; `actor_died` if the function is dropped without having run.
template <class T>
struct Turn {
  Promise<T> promise;

  Turn() = default;
  Turn(Turn&&) noexcept = default;
  Turn& operator=(Turn&&) noexcept = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  ~Turn() {
    promise.set(fail(Errc::actor_died, "the actor ended before the function that was to go on there had run"));
  }
};

} // namespace detail

/// A handle to an actor's own thread, for callbacks that continue there: the actor that they capture is alive when they
/// run. Copyable; any thread, also after the actor's end.
///
///   return own_thread().after(peer_.call(weights), [this](const Weights& found) { return use(found); });
class ActorThread {
public:
  explicit ActorThread(std::shared_ptr<detail::Posts> posts) : posts_(std::move(posts)) {
    // nop
  }

  /// Queues `function()` to run once on the actor's thread, behind all messages and functions that have arrived by now.
  /// An exception that leaves it ends the actor, which restarts if restarts are left. A function that has not run when
  /// the actor ends is destroyed on that thread, before the actor.
  /// @returns false, and destroys the function, if the actor has ended.
  template <std::invocable F>
  bool post(F function) const {
    return push(Duration::zero(), detail::as_function(std::move(function)));
  }

  /// Like `post`, but not before `wait` has passed.
  template <std::invocable F>
  bool post_after(Duration wait, F function) const {
    return push(wait, detail::as_function(std::move(function)));
  }

  /// Continues with the value of `future` on the actor's thread: runs `function(T)` there, as `post` does, once the
  /// value has arrived. `function` returns a message or another value, a `Result`, nothing, or a `Future` of more work.
  /// Errors of `future` bypass the function, and an exception of the function becomes an error. Consumes `future`;
  /// cancelling the returned one withdraws whichever work is under way.
  /// @returns the future of the function's result; `actor_died` if the actor ends before the function has run.
  template <class T, class F>
  [[nodiscard]] auto after(Future<T> future, F function) const {
    using Made = detail::MadeBy<F, T>;
    auto run = [thread = *this, function = std::move(function)](auto&&... value) mutable {
      detail::Turn<Made> turn;
      auto made = turn.promise.future();
      thread.post([turn = std::move(turn), function = std::move(function),
                   ... value = std::forward<decltype(value)>(value)]() mutable {
        if (turn.promise.cancelled())
          return;
        auto result = detail::made_by<Made>(function, Result<T>{std::move(value)...});
        // From now on, a cancellation withdraws the work that the function has started.
        if constexpr (detail::IsFuture<Made>::value)
          if (result && result->valid())
            turn.promise.on_cancel([work = std::weak_ptr{result->state()}] {
              if (const auto state = work.lock())
                state->give_up(Cancel::ask);
            });
        turn.promise.set(std::move(result));
      });
      return made;
    };
    auto made = std::move(future).and_then(std::move(run));
    if constexpr (detail::IsFuture<Made>::value)
      return std::move(made).and_then([](Made more) { return more; });
    else
      return made;
  }

private:
  [[nodiscard]] bool push(Duration wait, std::function<void()> function) const;

  std::shared_ptr<detail::Posts> posts_;
};

} // namespace gpuactors
