// OwnThreads: one thread for each actor that runs user code, because such code may take arbitrarily long.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/caf_version.hpp>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace gpuactors {

/// Starts a thread for each actor that it spawns, and joins them at the end.
///
/// CAF's detached actors also have a thread each. The threads here differ in two ways. A message wakes them once; CAF
/// 0.17 notifies under the lock that the woken thread takes first, so it wakes twice. And they poll briefly for the
/// next message before they sleep, as long as that pays. Any thread; an object of this class must not be destroyed by
/// one of its own threads.
class OwnThreads {
public:
  /// The base class of actors for `spawn`: their constructor takes a `Thread` after CAF's configuration.
  using ActorBase = caf_version::RunActor;
  using Thread = std::shared_ptr<caf_version::Runner>;
  /// Creates a thread, or throws `std::system_error`.
  using Maker = std::function<std::thread(std::function<void()>)>;

  explicit OwnThreads(Maker make = [](std::function<void()> body) { return std::thread{std::move(body)}; });
  OwnThreads(const OwnThreads&) = delete;
  OwnThreads& operator=(const OwnThreads&) = delete;

  /// Waits for all actors and threads, as `join` does.
  ~OwnThreads();

  /// Spawns an `A`, constructed with a `Thread` and `arguments`. @returns `unavailable` if the system has no thread
  /// left.
  template <class A, class... Ts>
  Result<caf::actor> spawn(caf::actor_system& system, Ts&&... arguments) {
    GPUACTORS_LET(thread, start(system));
    return caf::actor_cast<caf::actor>(system.spawn<A>(std::move(thread), std::forward<Ts>(arguments)...));
  }

  /// Waits until all actors and their threads have ended. After that no code runs on those threads, not even
  /// destructors of thread-local objects.
  void join();

private:
  class OwnThread;

  Result<Thread> start(caf::actor_system& system);
  /// Called by thread `number` as its last step.
  void end(std::uint64_t number);

  Maker make_;
  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::uint64_t last_number_ = 0;
  std::unordered_map<std::uint64_t, std::thread> running_;
  /// The thread that ended last; it joins the one that ended before it.
  std::thread ended_;
};

} // namespace gpuactors
