// Completion without waiting threads: one thread a device that tells whose work is done, also after a context error.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/device/cuda/events.hpp>

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gpuactors::cuda {

/// Watches an event for each notification and calls back once it is done or failed.
///
/// The driver's host callback only wakes the thread, for it may come late (`detail::pause_after`), and may be the one
/// thing that never comes: after a context error callbacks are not called. So while anything is pending the thread also
/// looks by itself, often at first, then every few milliseconds. Notifications of one stream come in order. Any thread.
///
/// After such an error it may also come late, when the device has gone: it touches nothing but the bell.
class Poller {
public:
  explicit Poller(std::shared_ptr<Primary> primary);
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  /// Nothing is pending any more.
  ~Poller();

  /// Calls `callback` once, on the thread of the poller, when the work queued on `stream` so far is done. The context
  /// is current.
  /// @param owner for `drain`.
  /// @param events for such streams; it must outlive the notification.
  Result<void> watch(const void* owner, Events& events, CUstream stream, std::function<void(Result<void>)> callback);

  /// Waits until every callback of `owner` has returned. Its streams' work is done, or the context is lost.
  void drain(const void* owner);

private:
  struct Pending {
    const void* owner;
    Events* events;
    CUstream stream;
    CUevent event;
    std::function<void(Result<void>)> callback;
    TimePoint since;
  };

  /// Wakes the thread. Its mutex guards the rest of it alone: the driver's callback takes it and must not wait for one
  /// who is inside the driver.
  struct Bell {
    std::mutex mutex;
    std::condition_variable rung;
    bool woken = false;
    bool stopping = false;
    /// Callbacks that the driver has not made yet.
    int expected = 0;

    /// @param calls that the driver makes from now on; below 0: has made.
    void ring(int calls);
  };

  static void CUDA_CB wake(void* bell);
  /// Bells that the driver may still ring although it should not. Never destroyed.
  static void keep(std::unique_ptr<Bell> bell);
  void run();
  /// Takes out what is done. The mutex is held.
  void collect(std::list<Pending>& done, std::vector<Result<void>>& results);

  std::shared_ptr<Primary> primary_;
  std::unique_ptr<Bell> bell_ = std::make_unique<Bell>();

  /// Guards what follows.
  std::mutex mutex_;
  std::condition_variable drained_;
  std::list<Pending> pending_;
  /// Taken out of `pending_`, callback not returned yet.
  std::list<Pending> calling_;
  std::thread thread_;
};

} // namespace gpuactors::cuda
