// How a CAF actor that hosts user code serves one call: shared by ActorShell and TaskRunner. Internal to the layer.
#pragma once

#include <gpuactors/actor/answers.hpp>
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace gpuactors::detail {

/// Whether streams of calls may stay open when the calls have returned.
enum class Keeps : bool { no, yes };

/// The frame of a call that came as a CAF message to `host`.
class HostedCall final : public CallFrame, public RunningCall {
public:
  /// @param stats of what is called; null if it does not exist.
  HostedCall(caf::event_based_actor* host, const Call& call, HolderControl& control, Answers& answers, CallStats* stats,
             Keeps keeps = Keeps::no, CallThread thread = CallThread::own)
    : CallFrame(call.payload, call.id, call.deadline, call.stream, control, thread), host_(host), answers_(answers),
      count_(stats), keeps_(keeps), caller_(caf_version::caller_of(*host)) {
    // nop
  }

  [[nodiscard]] Count& count() noexcept {
    return count_;
  }

  void send_item(Payload item) override {
    answers_.send_item(caf::actor_cast<caf::strong_actor_ptr>(host_->current_sender()),
                       caf::actor_cast<caf::strong_actor_ptr>(host_), StreamItem{id(), std::move(item)});
  }

  [[nodiscard]] bool reader_is_there() const override {
    const auto caller = caf::actor_cast<caf::strong_actor_ptr>(host_->current_sender());
    return caller != nullptr && caf_version::is_reachable(caller);
  }

  [[nodiscard]] std::function<void(const Error&)> refusal() const override {
    return [caller = caller_, host = caf::actor_cast<caf::strong_actor_ptr>(host_)](const Error& error) {
      if (caller.first != nullptr)
        caf_version::enqueue(caller.first, host, caller.second, to_caf(error));
    };
  }

  std::function<void(Result<Payload>)> defer(std::function<void()> withdraw) override {
    if (kept_ != nullptr) {
      kept_->promise_end();
      kept_->on_withdraw(std::move(withdraw));
      return [kept = kept_](Result<Payload> result) {
        kept->finish(result ? Result<void>{} : Result<void>{fail(result.error())});
      };
    }
    auto reply = answers_.add(host_, id(), host_->make_response_promise(), count_);
    deferred_ = answers_.last();
    control().defer(id(), std::move(withdraw), thread());
    return reply;
  }

  void when_answered(std::function<void()> function) const override {
    if (deferred_ != 0)
      answers_.when_answered(deferred_, std::move(function));
    else
      function();
  }

  Result<std::shared_ptr<KeptStream>> keep() override {
    if (keeps_ == Keeps::no)
      return fail(Errc::unsupported, "only an actor's method can keep its stream: a task's lease ends with the task");
    if (kept_ != nullptr)
      return fail(Errc::invalid_argument, "the stream was kept before");
    kept_ = answers_.keep(host_, id(), deadline(), count_);
    kept_->begin(control().keep(
        id(), [kept = kept_] { kept->withdraw(); }, [kept = kept_](std::uint32_t items) { kept->credit(items); }));
    return kept_;
  }

  /// Returns the stream that the call has kept; null if it has not. It answers the call.
  [[nodiscard]] const std::shared_ptr<HostedStream>& kept() const noexcept {
    return kept_;
  }

private:
  caf::event_based_actor* host_;
  Answers& answers_;
  Count count_;
  const Keeps keeps_;
  /// The message's sender, and the id of an answer to it: the message itself loses them with its first promise.
  const std::pair<caf::strong_actor_ptr, std::uint64_t> caller_;
  /// Its number among the answers that are to come; 0 if it was not deferred.
  std::uint64_t deferred_ = 0;
  std::shared_ptr<HostedStream> kept_;
};

/// The call that a CAF program sends as `(std::string method, Payload)`: without a number, deadline or stream.
inline Call plain_call(const std::string& method, const Payload& input) {
  Call call;
  call.method = method;
  call.payload = input;
  return call;
}

/// Marks a call as the one that this thread runs beside its actor's other calls, as long as the object lives.
class ConcurrentCall {
public:
  explicit ConcurrentCall(const CallFrame& frame) noexcept;
  ConcurrentCall(const ConcurrentCall&) = delete;
  ConcurrentCall& operator=(const ConcurrentCall&) = delete;
  ~ConcurrentCall();

  /// Returns that call of this thread; null if it runs none.
  [[nodiscard]] static const CallFrame* running() noexcept;
};

/// Returns what `serve` does, so that no exception escapes.
/// @param who returns who threw it, for the error.
template <class Who, class Serve>
Answer guarded(const Who& who, Serve&& serve) {
  try {
    return serve();
  } catch (const FailedResult& failed) {
    return Result<Payload>{fail(failed.error())};
  } catch (const std::exception& exception) {
    return Result<Payload>{fail(Errc::task_failed, fmt::format("{} threw an exception: {}", who(), exception.what()))};
  } catch (...) {
    return Result<Payload>{fail(Errc::task_failed, fmt::format("{} threw an exception of no standard type", who()))};
  }
}

/// Begins a call whose turn has come, unless it was withdrawn or is late. Counts its wait.
/// @param stream_items, running as in `HolderControl::begin`; `HolderControl::end` is due for a call that runs.
/// @param refusal is what the caller of one that does not run gets: nothing, if nobody waits for it.
/// @returns whether it runs.
inline bool admit(const Call& call, HolderControl& control, const Count& count, Answer& refusal,
                  std::uint32_t stream_items = 0, CallThread thread = CallThread::own,
                  const RunningCall* running = nullptr) {
  const auto begun = control.begin(call.id, stream_items, thread, call.method, count.begun(), running);
  const bool late = call.deadline != never && count.begun() >= call.deadline;
  // Whoever waits for it may have cancelled it at its deadline.
  if (begun ? *begun : late && begun.error().code() == Errc::cancelled)
    count.had_its_turn(call.made, late);
  if (begun && *begun && !late)
    return true;
  if (!begun) {
    refusal = Result<Payload>{fail(begun.error())};
  } else if (*begun) {
    control.end(thread);
    refusal = Result<Payload>{fail(Errc::deadline_exceeded, "the call's deadline passed while it waited for its turn")};
  }
  return false;
}

/// Runs `serve` under the rules of a call: a cancelled or late call does not run, and no exception escapes. Counts what
/// ran, unless its answer is still to come, and what was late.
/// @param type of the actor; empty for a task.
/// @param name of the holder.
template <class Serve>
Answer run_call(const Call& call, HostedCall& frame, std::string_view type, const HolderName& name,
                const LeaseInfo& lease, Serve&& serve) {
  auto& control = frame.control();
  Answer answer;
  if (!admit(call, control, frame.count(), answer, call.stream ? limits::stream_window : 0, frame.thread(), &frame))
    return answer;
  struct End {
    CallFrame& frame;
    ~End() {
      frame.control().end(frame.thread());
    }
  } const end{frame};
  std::optional<TraceScope> scope;
  if (Count::needs_span(call, type))
    scope.emplace(frame.count().begin_span(call, type, lease));
  answer = guarded([&] { return name.doing(call.method); }, std::forward<Serve>(serve));
  // The lease was revoked during the call, because a device failed: a result computed on that device cannot be trusted.
  if (answer && frame.stop_requested())
    if (auto revoked = control.revoked())
      answer = Result<Payload>{fail(std::move(*revoked))};
  // A method that stops because it was asked to, or that passes on what its stream said.
  if (answer)
    control.tell_if_dropped(call.id, *answer);
  if (const auto& kept = frame.kept()) {
    kept->method_returned(answer.value_or(Payload{}));
    return std::nullopt;
  }
  if (answer)
    frame.count().answered(*answer);
  return answer;
}

} // namespace gpuactors::detail
