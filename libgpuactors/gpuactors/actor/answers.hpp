// How the answers of a host reach its callers, at once or later, and are counted. Internal to the layer.
#pragma once

#include <gpuactors/actor/call_frame.hpp>
#include <gpuactors/actor/call_stats.hpp>
#include <gpuactors/actor/holder_name.hpp>
#include <gpuactors/actor/hosted_stream.hpp>
#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/trace/call_span.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/lanes.hpp>
#include <gpuactors/wire/messages.hpp>

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuactors::detail {

/// Counts one call when it has its answer, from the moment in which it was made, and ends its span.
class Count {
public:
  /// @param stats null for a call of something that does not exist, which is not counted.
  explicit Count(CallStats* stats) noexcept : stats_(stats) {
    // nop
  }

  [[nodiscard]] TimePoint begun() const noexcept {
    return begun_;
  }

  /// Its turn has come.
  /// @param made when the caller made it; its wait is not counted if it does not say.
  /// @param late the turn has come too late.
  void had_its_turn(TimePoint made, bool late) const noexcept {
    if (stats_ == nullptr)
      return;
    if (made != TimePoint{})
      stats_->waited(begun_ - made);
    if (late)
      stats_->was_late();
  }

  /// Whether a call is to have a span. A caller that records nothing says nothing of a trace: it begins here.
  /// @param type of the actor; empty for a task.
  static bool needs_span(const Call& call, std::string_view type) {
    return call.trace.valid() || (records_traces() && is_traced(type, call.method));
  }

  /// The call runs now: begins its span.
  /// @returns what its work is a part of.
  TraceContext begin_span(const Call& call, std::string_view type, const LeaseInfo& lease) {
    OpenSpan span{call.method, SpanKind::server, call.trace, begun_};
    auto context = span.context();
    if (span.recorded()) {
      describe_call(span, type, call.method);
      span.set("gpuactors.node", lease.node);
      span.set("gpuactors.lease", to_string(lease.id));
      if (call.made != TimePoint{})
        span.set("gpuactors.waited_seconds", to_seconds(begun_ - call.made));
      span_ = std::make_shared<OpenSpan>(std::move(span));
    }
    return context;
  }

  /// @param error null if it has not failed.
  void answered(const Error* error) const {
    if (stats_ != nullptr)
      stats_->ran(Clock::now() - begun_, error != nullptr);
    if (span_ == nullptr)
      return;
    if (error != nullptr)
      span_->fail(*error);
    span_->end();
  }

  /// The same for what answers it.
  void answered(const Result<Payload>& answer) const {
    answered(answer ? nullptr : &answer.error());
  }

private:
  CallStats* stats_;
  TimePoint begun_ = Clock::now();
  /// Null if the call is not traced. Shared, as whoever answers the call later has a copy of this object.
  std::shared_ptr<OpenSpan> span_;
};

/// Delivers the answers of a host. An immediate answer goes out at once. A deferred answer may come from any thread: it
/// is queued here, and a message makes the host deliver it on its own thread.
class Answers : public std::enable_shared_from_this<Answers> {
public:
  /// @param lanes null if there are no other processes.
  Answers(std::shared_ptr<HolderControl> control, std::shared_ptr<Lanes> lanes)
    : control_(std::move(control)), lanes_(std::move(lanes)) {
    // nop
  }

  /// Sets the name of the host, for errors that do not say whose they are. Host's thread.
  void set_name(HolderName name) {
    name_ = std::move(name);
  }

  /// Answers the message that `host` serves now, at once.
  caf::result<Payload> answer_now(caf::event_based_actor* host, Payload payload) {
    if (lanes_ == nullptr)
      return payload;
    auto promise = host->make_response_promise();
    answer(promise, caf::actor_cast<caf::strong_actor_ptr>(host), std::move(payload));
    return caf::delegated<Payload>{};
  }

  /// The same with what `run_call` returns: an answer, an error, or nothing yet.
  caf::result<Payload> give(caf::event_based_actor* host, Answer answer) {
    if (!answer)
      return caf::delegated<Payload>{};
    if (!answer->has_value())
      return to_caf(named(answer->error()));
    return answer_now(host, std::move(**answer));
  }

  /// Sends `item` from `host` to `caller`. Any thread.
  void send_item(const caf::strong_actor_ptr& caller, const caf::strong_actor_ptr& host, StreamItem item) {
    if (caller != nullptr)
      static_cast<void>(send_message(lanes_.get(), caller, host, 0, std::move(item)));
  }

  /// Keeps the stream of `call`, which `host` serves now. Host's thread.
  std::shared_ptr<HostedStream> keep(caf::event_based_actor* host, CallId call, TimePoint deadline,
                                     const Count& count) {
    StreamWay way;
    way.call = call;
    way.deadline = deadline;
    // The sender of the message is gone once it has a promise.
    auto caller = caf::actor_cast<caf::strong_actor_ptr>(host->current_sender());
    auto self = caf::actor_cast<caf::strong_actor_ptr>(host);
    way.reader_is_there = [caller] { return caller != nullptr && caf_version::is_reachable(caller); };
    way.send = [answers = shared_from_this(), caller, self](StreamItem item) {
      answers->send_item(caller, self, std::move(item));
    };
    way.why_ended = [control = control_] { return control->why_ended(); };
    way.reply = add(host, call, host->make_response_promise(), count);
    auto stream = std::make_shared<HostedStream>(std::move(way));
    const std::lock_guard lock{mutex_};
    streams_.push_back(stream);
    return stream;
  }

  /// Withdraws calls whose streams were kept, and whose readers are gone. Host's thread, now and then.
  /// @returns whether there are streams to look at again.
  bool look_after_streams() {
    std::vector<std::shared_ptr<HostedStream>> streams;
    {
      const std::lock_guard lock{mutex_};
      std::erase_if(streams_, [](const auto& stream) { return stream.expired(); });
      for (const auto& stream : streams_)
        if (auto kept = stream.lock())
          streams.push_back(std::move(kept));
    }
    for (const auto& stream : streams)
      stream->look();
    return !streams.empty();
  }

  /// Keeps `promise` of `call` and returns the function that answers it. Host's thread; the returned function may be
  /// called on any thread.
  std::function<void(Result<Payload>)> add(caf::event_based_actor* host, CallId call, caf::response_promise promise,
                                           const Count& count) {
    const auto ticket = ++last_ticket_;
    open_.emplace(ticket, Open{call, std::move(promise), caf::actor_cast<caf::actor_addr>(host), count, {}});
    return [self = shared_from_this(), ticket,
            host = caf::actor_cast<caf::strong_actor_ptr>(host)](Result<Payload> result) {
      {
        const std::lock_guard lock{self->mutex_};
        self->ready_.emplace_back(ticket, std::move(result));
      }
      v1::Tick tick;
      tick.set_id(ticket);
      caf_version::enqueue(host, nullptr, 0, std::move(tick));
    };
  }

  /// Returns the number of the answer that was added last. Host's thread.
  [[nodiscard]] std::uint64_t last() const noexcept {
    return last_ticket_;
  }

  /// Calls `function` before the answer of this number is given, or now if it was. Host's thread.
  void when_answered(std::uint64_t ticket, std::function<void()> function) {
    if (const auto found = open_.find(ticket); found != open_.end())
      found->second.before = std::move(function);
    else
      function();
  }

  /// Answers with `promise`, which `host` has made. Host's thread.
  template <class Host>
  void give(const Host& host, caf::response_promise& promise, Result<Payload>&& result) {
    if (result)
      answer(promise, caf::actor_cast<caf::strong_actor_ptr>(host), std::move(*result));
    else
      promise.deliver(to_caf(named(result.error())));
  }

  /// Delivers the deferred answers that are ready. Host's thread.
  void deliver() {
    std::vector<std::pair<std::uint64_t, Result<Payload>>> ready;
    {
      const std::lock_guard lock{mutex_};
      ready.swap(ready_);
    }
    for (auto& [ticket, result] : ready) {
      auto found = open_.extract(ticket);
      if (found.empty())
        continue;
      auto& [call, promise, host, count, before] = found.mapped();
      control_->tell_if_dropped(call, result);
      count.answered(result);
      if (before)
        before();
      give(host, promise, std::move(result));
      // The call is settled only after its answer is sent: a call that is neither deferred nor answered could be taken
      // back.
      control_->settle(call);
    }
  }

  /// Whether no answer is still to come. Host's thread.
  [[nodiscard]] bool empty() const noexcept {
    return open_.empty();
  }

  /// Delivers the answers that are ready, and answers all other open calls with `error`. Host's thread, at its end.
  void fail_all(const Error& error) {
    deliver();
    for (auto& [ticket, open] : open_) {
      open.count.answered(&error);
      if (open.before)
        open.before();
      open.promise.deliver(to_caf(error));
      control_->settle(open.call);
    }
    open_.clear();
  }

private:
  /// Says whose memory or device an error is about: the text comes from a quota that names its holder, or from a device
  /// that does not know it.
  [[nodiscard]] Error named(const Error& error) const {
    switch (error.code()) {
    case Errc::out_of_memory:
    case Errc::launch_failed:
    case Errc::copy_failed:
    case Errc::context_lost:
    case Errc::device_lost:
      if (!name_.who.empty() && !error.message().starts_with(name_.who))
        return {error.code(), fmt::format("{}{}: {}", name_.who, name_.where, error.message())};
      return error;
    default:
      return error;
    }
  }

  struct Open {
    CallId call;
    caf::response_promise promise;
    caf::actor_addr host;
    Count count;
    /// What is to be done first; may be empty.
    std::function<void()> before;
  };

  void answer(caf::response_promise& promise, const caf::strong_actor_ptr& host, Payload payload) {
    auto sent = Lanes::Sent::not_here;
    if (const auto [to, id] = caf_version::answer_to(promise); to != nullptr && lanes_ != nullptr)
      sent = lanes_->send(to, host, id, payload);
    if (sent == Lanes::Sent::not_here)
      promise.deliver(std::move(payload));
    else if (sent == Lanes::Sent::unwritable)
      promise.deliver(to_caf(unwritable(payload)));
  }

  static Error unwritable(const Payload& payload) {
    const auto encoded = payload.encoded();
    return encoded ? Error{Errc::internal, "the answer could not be written"} : encoded.error();
  }

  std::shared_ptr<HolderControl> control_;
  std::shared_ptr<Lanes> lanes_;
  HolderName name_;
  std::uint64_t last_ticket_ = 0;
  std::map<std::uint64_t, Open> open_;
  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, Result<Payload>>> ready_;
  std::vector<std::weak_ptr<HostedStream>> streams_;
};

} // namespace gpuactors::detail
