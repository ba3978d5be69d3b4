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

/// A running call, or several that run together, as seen by other threads.
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
  ///          it waited, `not_begun` if the holder is ending; the error of `revoke` or `end_itself` if one of them was
  ///          called. In all these cases, the call must not run.
  /// @param what the name of the method or task, for `busy`; not copied, and must live until `end`.
  /// @param running the call, for `give_up`; must live until `end`. Null: it cannot be answered by others.
  Result<bool> begin(CallId call, std::uint32_t stream_items, CallThread thread = CallThread::own,
                     std::string_view what = {}, TimePoint now = Clock::now(), const RunningCall* running = nullptr);

  /// Ends the running call. Holder's thread.
  void end(CallThread thread = CallThread::own);

  /// Begin and end work of the holder between calls, for `busy`. Holder's own thread.
  /// @param running the calls that the work answers, whose answers are deferred; as in `begin`.
  /// @returns the error of `revoke` or `give_up` if either was called before: `give_up` answers only the calls that run
  ///          when it is called.
  std::optional<Error> begin_turn(std::string_view what, TimePoint now = Clock::now(),
                                  const RunningCall* running = nullptr);
  void end_turn();

  struct Busy {
    std::string what;
    TimePoint since;
  };

  /// Records that the holder's own thread makes progress. `save` and each item of a stream do so too. Any thread.
  void get_on();

  /// Returns the running work that has made no progress for longest, and since when; nothing if nothing runs. Any
  /// thread.
  [[nodiscard]] std::optional<Busy> busy() const;

  /// Returns whether the running call should stop. Any thread; cheap enough for loops.
  [[nodiscard]] bool stop_requested(CallThread thread = CallThread::own) const noexcept {
    return running_on(thread).stop.load(std::memory_order_relaxed);
  }

  /// Takes one item of credit from the running call's stream; waits until there is one. Holder's thread.
  /// @param reader_is_there called now and then; returns whether the reader can still grant credit.
  /// @returns false if the call was asked to stop, the deadline came first, or the reader is gone.
  bool take_credit(
      TimePoint deadline, const std::function<bool()>& reader_is_there = [] { return true; });

  /// Defers the answer of the running call: until `settle`, cancelling it (or the end of the holder) runs `withdraw`
  /// once, on the cancelling thread; at once if that has already happened. Holder's thread.
  void defer(CallId call, std::function<void()> withdraw, CallThread thread = CallThread::own);

  /// Defers the answer of the running call like `defer`, and keeps its stream open: from now on, `credit` receives the
  /// items that the reader allows, on any thread. Holder's thread.
  /// @returns the credit that the call has left.
  [[nodiscard]] std::uint32_t keep(CallId call, std::function<void()> withdraw,
                                   std::function<void(std::uint32_t)> credit);

  /// Records that a deferred call has its answer.
  void settle(CallId call);

  /// Returns whether the answer of `call` was deferred and is still to come. Any thread.
  [[nodiscard]] bool is_deferred(CallId call) const;

  /// Cancels `call`, whether it is waiting, running or deferred.
  /// @param by the name of the client that asks for it; empty: no client in particular.
  /// @returns whether the call has begun and has no answer yet.
  bool cancel(CallId call, std::string_view by = {});

  /// Takes `call` back unless it has begun.
  /// @param by as for `cancel`.
  /// @returns whether it was taken back: it has not run and never will.
  bool take_back(CallId call, std::string_view by = {});

  /// Grants `items` more items to the stream of the running call, or to a stream that was kept, up to
  /// `limits::stream_window` in all.
  void credit(CallId call, std::uint32_t items);

  /// Begins the end of the holder: asks running, deferred and all later calls to stop.
  void stop_all();

  /// Revokes the lease of the holder, or gives up a holder that cannot go on: like `stop_all`, and calls without an
  /// answer fail with `error`. The first error counts.
  void revoke(Error error);

  /// Ends the holder's waits for futures, because most of the grace for its end is over.
  void end_waits() noexcept {
    waits_end_->store(true, std::memory_order_relaxed);
  }

  /// Returns the flag that `end_waits` sets, for `set_wait_end` on the holder's threads.
  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> waits_end() const noexcept {
    return waits_end_;
  }

  /// Makes an `answer` that says `cancelled`, of a call that the end of the holder has stopped or withdrawn, and not
  /// its caller, say so: it is lost with this life, and its caller may make it again. Any thread.
  void tell_if_dropped(CallId call, Result<Payload>& answer) const;

  /// Prepares for a kill of the process: like `revoke`, but also answers running calls with the error at once, whatever
  /// they go on to do. Any thread but the holder's.
  void give_up(const Error& error);

  /// Returns whether no more calls begin. Any thread.
  [[nodiscard]] bool is_ending() const;

  /// Returns the error of `revoke`; nothing without one. Any thread.
  [[nodiscard]] std::optional<Error> revoked() const;

  /// Records that the holder ends itself: later calls fail with `error`, and those that have begun go on. The first
  /// error counts.
  void end_itself(Error error);

  /// Returns the error with which the holder ends itself; nothing if it does not. Any thread.
  [[nodiscard]] std::optional<Error> ends_itself() const;

  /// Returns the error for calls that the holder has not answered at its end. Any thread.
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

  /// Returns how the calls of the holder's methods went; nothing for holders that do not count them. Any thread.
  [[nodiscard]] std::vector<CallCounts> methods() const;

  /// Returns the metrics that the holder publishes. Any thread.
  [[nodiscard]] Metrics& metrics() noexcept {
    return metrics_;
  }

  /// Sets the function to call at the end. Call before others know the holder.
  void on_end(std::function<void()> report);

  /// Reports one of the two steps of the end: the holder has closed its devices, or its handles are marked as down. CAF
  /// 0.17 and 1.x do them in different orders; the second step calls the function of `on_end`.
  void half_ended();

  /// Returns whether both steps were reported. Any thread.
  [[nodiscard]] bool has_ended() const;

  /// Records the indices of devices that this process has lost by a sticky error. The holder calls it at its end; the
  /// worker, which reports that end, reads them with `lost_devices`. Any thread.
  void report_lost(std::vector<int> devices);
  [[nodiscard]] std::vector<int> lost_devices() const;

private:
  /// With the mutex.
  void get_on_now();

  /// What one of the threads runs. Guarded by the mutex, except `stop`.
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

  /// Calls that must not run when their turn comes. For some, the turn never comes or has passed: beyond a limit for
  /// each client's name, the oldest calls of that name are forgotten, so that no client can displace the cancellations
  /// of others.
  class Remembered {
  public:
    /// Adds `call`. @returns false if it is there already.
    bool insert(CallId call, std::string_view by);

    /// Removes `call`. @returns whether it was there.
    bool take(CallId call);

    [[nodiscard]] bool contains(CallId call) const {
      return calls_.count(call) > 0;
    }

  private:
    std::unordered_set<CallId> calls_;
    /// By client name; includes calls that were removed meanwhile.
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
  // Calls that the end of the holder, and not their callers, has stopped or withdrawn.
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
