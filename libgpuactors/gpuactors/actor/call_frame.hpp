// CallFrame: a running call, as seen by the code that serves it.
#pragma once

#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/open_stream.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/wire/payload.hpp>

#include <functional>
#include <optional>

namespace gpuactors {

/// The result of a handler: the answer, or nothing if it will come later through `CallFrame::defer`.
using Answer = std::optional<Result<Payload>>;

/// One call: its input, its limits, and the ways to answer it. Exists on the holder's thread while the call runs.
class CallFrame {
public:
  CallFrame(const Payload& input, CallId id, TimePoint deadline, bool stream, HolderControl& control,
            CallThread thread = CallThread::own)
    : input_(input), id_(id), deadline_(deadline), stream_(stream), thread_(thread), control_(control) {
    // nop
  }

  virtual ~CallFrame() = default;
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

  [[nodiscard]] const Payload& input() const noexcept {
    return input_;
  }

  [[nodiscard]] CallId id() const noexcept {
    return id_;
  }

  [[nodiscard]] TimePoint deadline() const noexcept {
    return deadline_;
  }

  /// Returns whether the caller accepts a streamed reply.
  [[nodiscard]] bool stream() const noexcept {
    return stream_;
  }

  [[nodiscard]] HolderControl& control() noexcept {
    return control_;
  }

  /// Returns the thread that the call runs on.
  [[nodiscard]] CallThread thread() const noexcept {
    return thread_;
  }

  [[nodiscard]] bool stop_requested() const noexcept {
    return control_.stop_requested(thread_);
  }

  /// Sends one item of a streamed reply.
  virtual void send_item(Payload item) = 0;

  /// Returns whether items still reach the caller: its process and the connection to it are there.
  [[nodiscard]] virtual bool reader_is_there() const = 0;

  /// Defers the answer: it comes through the returned function, from any thread. `withdraw` runs once if the call is
  /// cancelled before that; see `HolderControl::defer`.
  virtual std::function<void(Result<Payload>)> defer(std::function<void()> withdraw) = 0;

  /// Calls `function` before the call gets its answer: at once, unless that was deferred. Holder's thread, once the
  /// function that serves the call has returned.
  virtual void when_answered(std::function<void()> function) const = 0;

  /// Keeps the stream of this call open after the call; see `ReplyStream::keep`.
  virtual Result<std::shared_ptr<detail::KeptStream>> keep() = 0;

private:
  const Payload& input_;
  CallId id_;
  TimePoint deadline_;
  bool stream_;
  CallThread thread_;
  HolderControl& control_;
};

/// The producing end of a streamed reply: items reach the caller in order and before the call's own answer.
///
/// Only on the holder's thread, during its call; `keep` returns a stream that outlives the call.
template <ProtobufMessage T>
class ReplyStream {
public:
  explicit ReplyStream(CallFrame& frame) : frame_(frame) {
    // nop
  }

  /// Sends `item`; waits while `limits::stream_window` items are in flight that the caller has not read
  /// (back-pressure).
  /// @returns `cancelled` if the caller withdrew or is gone, or the holder is ending; `deadline_exceeded` if the call's
  ///          deadline came first; `invalid_argument` if the item is too large, or the stream was kept.
  Result<void> write(T item) {
    if (kept_)
      return fail(Errc::invalid_argument, "the stream was kept: write to what keep() has returned");
    auto payload = Payload::of(std::move(item));
    GPUACTORS_TRY(payload.check_size());
    if (!frame_.control().take_credit(frame_.deadline(), [this] { return frame_.reader_is_there(); })) {
      if (frame_.control().stop_requested() || !frame_.reader_is_there())
        return fail(Errc::cancelled, "the caller does not want more items or is gone, or this holder is ending");
      return fail(Errc::deadline_exceeded, "the caller did not take an item before the call's deadline");
    }
    frame_.send_item(std::move(payload));
    return {};
  }

  /// Keeps the stream open after the method has returned, while the actor serves other calls. An error that the method
  /// returns still ends the stream, any other value has no effect, and a `Future` ends the stream when it is ready.
  /// @returns the stream to use instead of this one; `unsupported` in a task, whose memory and lease end with it;
  ///          `invalid_argument` if the stream was kept before.
  [[nodiscard]] Result<OpenStream<T>> keep() {
    GPUACTORS_LET(stream, frame_.keep());
    kept_ = true;
    return OpenStream<T>{std::move(stream)};
  }

private:
  CallFrame& frame_;
  bool kept_ = false;
};

} // namespace gpuactors
