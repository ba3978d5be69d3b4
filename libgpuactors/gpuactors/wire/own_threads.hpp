// OwnThreads: the threads of those actors that have one each, because users' code may take as long as it likes there.
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

/// Starts a thread for each actor that it spawns, and waits for them in the end.
///
/// CAF's detached actors have a thread each, too. Here it is woken once for a message: CAF 0.17 wakes it under the lock
/// that it takes first, so twice. And it looks for the next message for a moment before it sleeps, as long as that
/// pays. Any thread; an object of this class is not destroyed by one of its own threads.
class OwnThreads {
public:
  /// The base of an actor that can be spawned here: its constructor takes a `Thread` behind CAF's configuration.
  using ActorBase = caf_version::RunActor;
  using Thread = std::shared_ptr<caf_version::Runner>;
  /// Makes a thread, or throws `std::system_error`.
  using Maker = std::function<std::thread(std::function<void()>)>;

  explicit OwnThreads(Maker make = [](std::function<void()> body) { return std::thread{std::move(body)}; });
  OwnThreads(const OwnThreads&) = delete;
  OwnThreads& operator=(const OwnThreads&) = delete;

  /// Joins.
  ~OwnThreads();

  /// Spawns an `A`, made with a `Thread` and `arguments`. `unavailable` if the system has no thread left.
  template <class A, class... Ts>
  Result<caf::actor> spawn(caf::actor_system& system, Ts&&... arguments) {
    GPUACTORS_LET(thread, start(system));
    return caf::actor_cast<caf::actor>(system.spawn<A>(std::move(thread), std::forward<Ts>(arguments)...));
  }

  /// Waits until all actors have ended, and with them the threads: nothing runs there any more, not even what threads
  /// do at their end.
  void join();

private:
  class OwnThread;

  Result<Thread> start(caf::actor_system& system);
  /// The last that a thread does here.
  void end(std::uint64_t number);

  Maker make_;
  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::uint64_t last_number_ = 0;
  std::unordered_map<std::uint64_t, std::thread> running_;
  /// The last that has ended; it has joined the one before, or does so now.
  std::thread ended_;
};

} // namespace gpuactors
