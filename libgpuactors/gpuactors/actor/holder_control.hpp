// HolderControl: what others may do to the calls of one lease holder while it runs them: cancel, stop, allow items.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/payload.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace gpuactors {

/// Shared by a runner or actor (which begins and ends calls on its own thread) and its worker (which cancels them and
/// passes stream credit from any thread).
///
/// A call goes: waiting -> running -> over. Cancelling a waiting call keeps it from running; cancelling the running one
/// asks it to stop. Once the holder is ending, every call is asked to stop.
class HolderControl {
public:
  /// Marks `call` as the running one, with so many items of stream credit. Holder's thread.
  /// @returns false when it was taken back: nobody waits for its answer; `cancelled` when it was cancelled while it
  ///          waited, `actor_died` when the holder is ending, or why its lease was taken back. The call must not run
  ///          then.
  Result<bool> begin(CallId call, std::uint32_t stream_items);

  /// The running call is over. Holder's thread.
  void end();

  /// Whether the running call should stop. Any thread; cheap enough to ask in a loop.
  [[nodiscard]] bool stop_requested() const noexcept {
    return stop_.load(std::memory_order_relaxed);
  }

  /// Takes one item's credit of the running call's stream, waiting until there is one.
  /// @returns false when the call was asked to stop or the deadline came first. Holder's thread.
  bool take_credit(TimePoint deadline);

  /// The running call is answered later: until `settle`, cancelling it (or the end of the holder) runs `withdraw` once,
  /// on the thread that cancels. Runs it at once when that has happened already. Holder's thread.
  void defer(CallId call, std::function<void()> withdraw);

  /// A deferred call has its answer.
  void settle(CallId call);

  /// Cancels `call`, whether it waits, runs or was deferred.
  /// @returns whether it has begun and has no answer yet.
  bool cancel(CallId call);

  /// Keeps `call` from beginning, unless it has begun.
  /// @returns whether that is so: it has not run and never will.
  bool take_back(CallId call);

  /// Allows the running call's stream `items` more items.
  void credit(CallId call, std::uint32_t items);

  /// The holder is to end: asks what runs, what was deferred and all that comes to stop.
  void stop_all();

  /// Takes the lease back: as `stop_all`, and what has no answer yet gets this error as its own.
  void revoke(Error error);

  /// Why the lease was taken back; nothing while it was not. Any thread.
  [[nodiscard]] std::optional<Error> revoked() const;

  /// Sets who keeps what the holder saves, before the holder is known to anybody.
  void on_save(std::function<void(const Payload&)> keep);

  /// Has `state` kept for the holder's next life. Holder's thread.
  void save(const Payload& state);

  /// Calls that ended so far, whatever their result. Any thread.
  [[nodiscard]] std::uint64_t calls() const noexcept {
    return calls_.load(std::memory_order_relaxed);
  }

  /// Sets who is told of the end, before the holder is known to anybody.
  void on_end(std::function<void()> report);

  /// One of the two things that make the end has happened: the holder has let go of its devices, or its handles are
  /// marked as down. CAF 0.17 and 1.x do them in different orders; the second one tells of the end.
  void half_ended();

  /// Devices that the holder found lost to this process: told at its end, read by who reports the end.
  void report_lost(std::vector<int> devices);
  [[nodiscard]] std::vector<int> lost_devices() const;

private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> calls_{0};
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  CallId running_;
  CallId last_ended_;
  std::uint32_t credits_ = 0;
  bool ending_ = false;
  std::optional<Error> revoked_;
  std::unordered_map<CallId, std::function<void()>> deferred_;
  // Cancelled before they began. A cancellation may come after the answer, so the oldest are forgotten.
  std::unordered_set<CallId> cancelled_;
  std::deque<CallId> cancelled_order_;
  // Taken back before they began, and on their way here.
  std::unordered_set<CallId> taken_back_;
  std::vector<int> lost_devices_;
  std::function<void()> report_;
  std::function<void(const Payload&)> keep_;
  int halves_ = 0;
};

} // namespace gpuactors
