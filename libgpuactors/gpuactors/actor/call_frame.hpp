// CallFrame: one call while it runs, seen from the code that serves it.
#pragma once

#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/wire/payload.hpp>

#include <functional>
#include <optional>

namespace gpuactors {

/// What a handler gives back: the answer, or nothing when it will come later through `CallFrame::defer`.
using Answer = std::optional<Result<Payload>>;

/// One call: its input, its limits, and the ways to answer it. Lives on the holder's thread while the call runs.
class CallFrame {
public:
  CallFrame(const Payload& input, CallId id, TimePoint deadline, bool stream, HolderControl& control)
    : input_(input), id_(id), deadline_(deadline), stream_(stream), control_(control) {
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

  /// Whether the caller takes a streamed reply.
  [[nodiscard]] bool stream() const noexcept {
    return stream_;
  }

  [[nodiscard]] HolderControl& control() noexcept {
    return control_;
  }

  /// Sends one item of a streamed reply.
  virtual void send_item(Payload item) = 0;

  /// Takes the call out of the handler's hands: the answer comes through the returned function, from any thread.
  /// `withdraw` runs once if the call is cancelled before that; see `HolderControl::defer`.
  virtual std::function<void(Result<Payload>)> defer(std::function<void()> withdraw) = 0;

private:
  const Payload& input_;
  CallId id_;
  TimePoint deadline_;
  bool stream_;
  HolderControl& control_;
};

/// The producing end of a streamed reply: items reach the caller in order and before the call's own answer.
///
/// Holder's thread, during the call it was given to.
template <ProtobufMessage T>
class ReplyStream {
public:
  explicit ReplyStream(CallFrame& frame) : frame_(frame) {
    // nop
  }

  /// Sends `item`, waiting while `limits::stream_window` items are under way that the caller has not taken
  /// (back-pressure).
  /// @returns `cancelled` when the caller withdrew or the holder is ending, `deadline_exceeded` when the call's
  /// deadline came first, `invalid_argument` when the item is too large.
  Result<void> write(T item) {
    auto payload = Payload::of(std::move(item));
    GPUACTORS_TRY(payload.check_size());
    if (!frame_.control().take_credit(frame_.deadline())) {
      if (frame_.control().stop_requested())
        return fail(Errc::cancelled, "the caller does not want more items, or this holder is ending");
      return fail(Errc::deadline_exceeded, "the caller did not take an item before the call's deadline");
    }
    frame_.send_item(std::move(payload));
    return {};
  }

private:
  CallFrame& frame_;
};

} // namespace gpuactors
