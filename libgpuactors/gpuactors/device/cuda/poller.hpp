// Completion without waiting threads: one thread a device that tells whose work is done, also after a context error.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/device/cuda/events.hpp>

#include <array>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace gpuactors::cuda {

/// Watches an event for each notification and calls back once it is done or failed.
///
/// While anything is pending the thread looks by itself, often at first, then every few milliseconds. A new
/// notification shortens its pause, and does not end it: each look costs a call for every stream. What takes longer the
/// driver also tells it, by a host function that wakes it. That is on a stream of the poller's own, which waits for the
/// event: on the user's stream the work behind it would wait for the driver's thread to have called it. It may come
/// late (`detail::pause_after`), or never: after a context error none is called. Notifications of one stream come in
/// order. Any thread.
///
/// After such an error it may also come when the device has gone: it touches nothing but the bell.
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
  /// Few: a stream that waits takes one of the device's queues, of which there are 32.
  static constexpr std::size_t side_streams = 4;

  struct Pending {
    const void* owner;
    Events* events;
    CUstream stream;
    CUevent event;
    std::function<void(Result<void>)> callback;
    TimePoint since;
    /// Whether the driver is to tell, too.
    bool told_by_driver = false;
  };

  /// Wakes the thread. Its mutex guards the rest of it alone: the driver's callback takes it and must not wait for one
  /// who is inside the driver.
  struct Bell {
    std::mutex mutex;
    std::condition_variable rung;
    bool woken = false;
    /// There is a notification that the thread has not looked at yet.
    bool has_new = false;
    bool stopping = false;

    /// Of one of the poller's streams.
    struct Rope {
      Bell* bell;
      /// The driver has a host function to call, and has not called it yet.
      bool expected = false;
    };
    /// Each is for one notification at a time: of two on one stream the second would wait for the first.
    std::array<Rope, side_streams> ropes;

    Bell();
    void announce();
    [[nodiscard]] bool is_expected() const;
  };

  static void CUDA_CB wake(void* rope);
  /// Bells that the driver may still ring although it should not. Never destroyed.
  static void keep(std::unique_ptr<Bell> bell);
  /// When the thread looks again, and what the last look has cost.
  struct Pace {
    bool idle = false;
    TimePoint looked{};
    Duration look{};
    Duration pause{};
  };

  void run();
  /// Waits until the thread is to look. @returns whether it is to end instead.
  bool await(const Pace& pace);
  /// Takes out what is done. The thread of the poller.
  /// @param slow is given what the driver should tell of, too: of each stream the first that is pending for long. It
  ///             stays where it is until it is taken out, here.
  void collect(std::list<Pending>& done, std::vector<Result<void>>& results, std::vector<Pending*>& slow);
  /// Lets the driver tell of them, as far as there are streams for it. The thread of the poller.
  void ask_driver(const std::vector<Pending*>& slow);
  /// Lets it call the host function of that stream behind `event`.
  bool ask_driver(std::size_t side, CUevent event);
  /// Ends the streams, when nothing is pending any more.
  void end_streams() noexcept;

  std::shared_ptr<Primary> primary_;
  std::unique_ptr<Bell> bell_ = std::make_unique<Bell>();
  // The thread's alone, until it has ended: nobody who adds a notification waits for a look.
  /// Made when they are first needed.
  std::array<CUstream, side_streams> sides_{};
  std::list<Pending> pending_;

  /// Guards what follows.
  std::mutex mutex_;
  std::condition_variable drained_;
  std::list<Pending> incoming_;
  /// Notifications by owner, until the callback has returned.
  std::unordered_map<const void*, std::size_t> owned_;
  std::thread thread_;
};

} // namespace gpuactors::cuda
