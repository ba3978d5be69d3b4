// ActorThread: has functions run on the thread of an actor, between its messages.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <utility>

namespace gpuactors {

namespace detail {

class Posts;

/// Wraps a function that perhaps cannot be copied, because it has a future or a stream in it.
template <class F>
std::function<void()> as_function(F function) {
  return [kept = std::make_shared<F>(std::move(function))] { (*kept)(); };
}

} // namespace detail

/// A handle to an actor's own thread, for callbacks that go on there: what they capture of the actor is alive when they
/// run. Copyable; any thread, also after the actor's end.
///
///   peer_.call<Weights>("weights").then([thread = own_thread(), this](gpuactors::Result<Weights> weights) {
///     thread.post([this, weights = std::move(weights)] { use(weights); });
///   });
class ActorThread {
public:
  explicit ActorThread(std::shared_ptr<detail::Posts> posts) : posts_(std::move(posts)) {
    // nop
  }

  /// Runs `function()` once on the actor's thread, behind the messages and functions that have come by now. An
  /// exception that leaves it ends the actor, which restarts if it has restarts left.
  /// @returns false, and destroys the function, if the actor has ended. One that has not run when the actor ends is
  ///          destroyed there, before the actor.
  template <std::invocable F>
  bool post(F function) const {
    return push(Duration::zero(), detail::as_function(std::move(function)));
  }

  /// The same, not before `wait` has passed.
  template <std::invocable F>
  bool post_after(Duration wait, F function) const {
    return push(wait, detail::as_function(std::move(function)));
  }

private:
  [[nodiscard]] bool push(Duration wait, std::function<void()> function) const;

  std::shared_ptr<detail::Posts> posts_;
};

} // namespace gpuactors
