// HolderControl: control of a lease holder's calls by others: cancel, stop, grant stream credit.
#pragma once

#include <gpuactors/actor/call_stats.hpp>
#include <gpuactors/actor/metrics.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/payload.hpp>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace gpuactors {

/// The threads of a holder that run calls, each one at a time: its own, and the one for concurrent methods.
enum class CallThread : std::uint8_t { own, concurrent };

/// A call that runs, or several that run together, as other threads than their own see them.
class RunningCall {
public:
  RunningCall() = default;
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;
  virtual ~RunningCall() = default;

  /// Returns a function that answers the calls with an error; whatever else answers them later has no effect. Any
  /// thread, while they run; the function also later.
  [[nodiscard]] virtual std::function<void(const Error&)> refusal() const = 0;
};

/// Shared by a runner or actor (which begins and ends calls on its own thread) and its worker (which cancels them and
/// passes stream credit from any thread).
///
/// A call goes: waiting -> running -> over. "Holder's thread" is the one that runs the call. Cancelling a waiting call
/// keeps it from running; cancelling the running one asks it to stop. Once the holder is ending, every call is asked to
/// stop.
class HolderControl {
public:
  /// Marks `call` as the running one, with `stream_items` items of stream credit. Holder's thread.
  /// @returns false if the call was taken back and nobody waits for its answer; `cancelled` if it was cancelled while
  ///          it waited, `actor_died` if the holder is ending or has ended itself, or the error with which its lease
  ///          was revoked. In all these cases, the call must not run.
  /// @param what is called, for `busy`; not copied, and must live until `end`.
  /// @param running the call, for `give_up`; must live until `end`. Null: it cannot be answered by others.
  Result<bool> begin(CallId call, std::uint32_t stream_items, CallThread thread = CallThread::own,
                     std::string_view what = {}, TimePoint now = Clock::now(), const RunningCall* running = nullptr);

  /// Ends the running call. Holder's thread.
  void end(CallThread thread = CallThread::own);

  /// Begin and end what the holder does between calls, for `busy`. Holder's own thread.
  /// @param running calls that it answers, whose answers are deferred; as in `begin`.
  /// @returns the error of `revoke` or `give_up`, if that came before: `give_up` answers what runs only then.
  std::optional<Error> begin_turn(std::string_view what, TimePoint now = Clock::now(),
                                  const RunningCall* running = nullptr);
  void end_turn();

  struct Busy {
    std::string what;
    TimePoint since;
  };

  /// What the holder's own thread runs gets on. Saving and each item of a stream say so, too. Any thread.
  void get_on();

  /// Returns what the holder runs now, and since when it has not got on: the one for which that is longest. Any thread.
  [[nodiscard]] std::optional<Busy> busy() const;

  /// Returns whether the running call should stop. Any thread; cheap enough for loops.
  [[nodiscard]] bool stop_requested(CallThread thread = CallThread::own) const noexcept {
    return running_on(thread).stop.load(std::memory_order_relaxed);
  }

  /// Takes one item of credit from the running call's stream; waits until there is one. Holder's thread.
  /// @param reader_is_there is asked now and then whether anybody can still give credit.
  /// @returns false if the call was asked to stop, the deadline came first, or the reader is gone.
  bool take_credit(
      TimePoint deadline, const std::function<bool()>& reader_is_there = [] { return true; });

  /// Defers the answer of the running call: until `settle`, cancelling it (or the end of the holder) runs `withdraw`
  /// once, on the cancelling thread; at once if that has already happened. Holder's thread.
  void defer(CallId call, std::function<void()> withdraw, CallThread thread = CallThread::own);

  /// Defers the answer of the running call like `defer`, and keeps its stream open: from now on, `credit` gets what its
  /// reader allows, on any thread. Holder's thread.
  /// @returns the credit that the call has left.
  [[nodiscard]] std::uint32_t keep(CallId call, std::function<void()> withdraw,
                                   std::function<void(std::uint32_t)> credit);

  /// Records that a deferred call has its answer.
  void settle(CallId call);

  /// Cancels `call`, whether it is waiting, running or deferred.
  /// @param by the name of the client that asks for it; empty: nobody's in particular.
  /// @returns whether it has begun and has no answer yet.
  bool cancel(CallId call, std::string_view by = {});

  /// Takes `call` back unless it has begun.
  /// @param by as above.
  /// @returns whether it was taken back: it has not run and never will.
  bool take_back(CallId call, std::string_view by = {});

  /// Grants the stream of the running call, or of one that was kept, `items` more items, but not more than its reader
  /// can owe.
  void credit(CallId call, std::uint32_t items);

  /// Begins the end of the holder: asks running, deferred and all later calls to stop.
  void stop_all();

  /// Takes the lease from the holder, or the holder from its callers because it cannot go on: like `stop_all`, and
  /// calls without an answer fail with this error. The first one counts.
  void revoke(Error error);

  /// Most of the grace of a holder that was asked to end is over: ends its waits for futures.
  void end_waits() noexcept {
    waits_end_->store(true, std::memory_order_relaxed);
  }

  /// Set by that, for `set_wait_end` on the holder's threads.
  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> waits_end() const noexcept {
    return waits_end_;
  }

  /// Whether the end of the holder has withdrawn the call, whose answer was deferred, and not its caller. Any thread.
  [[nodiscard]] bool was_dropped(CallId call) const;

  /// The process is about to be killed: like `revoke`, and calls that run are answered with the error at once, whatever
  /// they go on to do. Any thread but the holder's.
  void give_up(const Error& error);

  /// Returns whether calls do not begin any more. Any thread.
  [[nodiscard]] bool is_ending() const;

  /// Returns the error of `revoke`; nothing without one. Any thread.
  [[nodiscard]] std::optional<Error> revoked() const;

  /// The holder ends itself: later calls fail with this error, and those that have begun go on. The first error counts.
  void end_itself(Error error);

  /// Returns with which error the holder ends itself; nothing if it does not. Any thread.
  [[nodiscard]] std::optional<Error> ends_itself() const;

  /// Returns what calls get that the holder has not answered at its end. Any thread.
  [[nodiscard]] Error why_ended() const;

  /// Sets the function that keeps the holder's saved state. Call before others know the holder.
  void on_save(std::function<void(const Payload&)> keep);

  /// Saves `state` for the holder's next life. Holder's thread.
  void save(const Payload& state);

  /// Returns the number of calls that have ended, with whatever result. Any thread.
  [[nodiscard]] std::uint64_t calls() const noexcept {
    return calls_.load(std::memory_order_relaxed);
  }

  /// Sets where the holder counts the calls of its methods. Holder's thread.
  void set_methods(std::shared_ptr<const CallTable> methods);

  /// Returns how the calls of its methods went; nothing for holders that do not count them. Any thread.
  [[nodiscard]] std::vector<CallCounts> methods() const;

  /// Returns what the holder publishes. Any thread.
  [[nodiscard]] Metrics& metrics() noexcept {
    return metrics_;
  }

  /// Sets the function to call at the end. Call before others know the holder.
  void on_end(std::function<void()> report);

  /// Reports one of the two steps of the end: the holder has closed its devices, or its handles are marked as down. CAF
  /// 0.17 and 1.x do them in different orders; the second step calls the function of the end.
  void half_ended();

  /// Whether both steps were reported. Any thread.
  [[nodiscard]] bool has_ended() const;

  /// Records the indices of devices that a sticky error has lost to this process. The holder reports them at its end;
  /// `lost_devices` returns them to whoever reports that end. Any thread.
  void report_lost(std::vector<int> devices);
  [[nodiscard]] std::vector<int> lost_devices() const;

private:
  /// With the mutex.
  void get_on_now();

  /// What one of the threads runs. Guarded by the mutex, but for `stop`.
  struct Running {
    std::atomic<bool> stop{false};
    CallId call;
    CallId last_ended;
    std::string_view what;
    /// `never` while nothing runs.
    TimePoint since = never;
    /// Null while no call runs that can be answered by others.
    const RunningCall* as_seen = nullptr;
  };

  /// A call whose answer is still to come.
  struct Deferred {
    std::function<void()> withdraw;
    /// Empty unless its stream was kept.
    std::function<void(std::uint32_t)> credit;
  };

  /// Calls that must not run when their turn comes. For some it never comes, or has passed: beyond a number for each
  /// client's name, its oldest are forgotten, so that nobody makes the holder forget what others have cancelled.
  class Remembered {
  public:
    /// @returns false if it is there already.
    bool insert(CallId call, std::string_view by);

    /// @returns whether it was there.
    bool take(CallId call);

    [[nodiscard]] bool contains(CallId call) const {
      return calls_.count(call) > 0;
    }

  private:
    std::unordered_set<CallId> calls_;
    /// By name; also those that were taken out meanwhile.
    std::map<std::string, std::deque<CallId>, std::less<>> order_;
  };

  [[nodiscard]] Running& running_on(CallThread thread) noexcept {
    return running_[static_cast<std::size_t>(thread)];
  }
  [[nodiscard]] const Running& running_on(CallThread thread) const noexcept {
    return running_[static_cast<std::size_t>(thread)];
  }

  std::array<Running, 2> running_;
  std::atomic<std::uint64_t> calls_{0};
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::uint32_t credits_ = 0;
  bool ending_ = false;
  std::optional<Error> revoked_;
  std::optional<Error> ends_itself_;
  std::unordered_map<CallId, Deferred> deferred_;
  // Deferred calls that the end of the holder has withdrawn.
  std::unordered_set<CallId> dropped_;
  const std::shared_ptr<std::atomic<bool>> waits_end_ = std::make_shared<std::atomic<bool>>(false);
  // Calls cancelled before they began; a cancellation may arrive after the call's answer. And calls taken back.
  Remembered cancelled_;
  Remembered taken_back_;
  std::vector<int> lost_devices_;
  std::function<void()> report_;
  std::function<void(const Payload&)> keep_;
  std::shared_ptr<const CallTable> methods_;
  int halves_ = 0;
  Metrics metrics_;
};

} // namespace gpuactors
