// The waiting side of a request, apart from how requests are sent.
#pragma once

#include <gpuactors/base/error.hpp>
#include <gpuactors/wire/payload.hpp>

#include <cstdint>

namespace gpuactors {

class MessageContent;

/// Identifies one request of a port.
using RequestTicket = std::uint64_t;

/// The waiting side of one request. Exactly one of `on_reply` and `on_error` is called, once, on whichever thread the
/// answer comes from: be quick, do not block.
class PendingReply {
public:
  virtual ~PendingReply() = default;

  /// Takes the reply; it may move from `content`.
  virtual void on_reply(MessageContent& content) = 0;
  virtual void on_error(Error error) = 0;

  /// Returns the error for `on_error` when the deadline of the request has passed.
  [[nodiscard]] virtual Error overdue() const {
    return Error{Errc::deadline_exceeded, "no answer came in time"};
  }

  /// Returns whether `on_error` may get `not_begun`; if not, it gets `actor_died` instead.
  [[nodiscard]] virtual bool knows_not_begun() const noexcept {
    return false;
  }

  /// Takes an item of a streamed reply; called before `on_reply` or `on_error`.
  virtual void on_item(Payload item);

  /// Returns whether this request counts against `limits::calls_in_flight`. The library's own requests do not count:
  /// timers and the search for the broker must keep working while a program has the maximum of calls in flight.
  [[nodiscard]] virtual bool counts() const noexcept {
    return true;
  }
};

/// The waiting side of one of the library's own requests.
class OwnReply : public PendingReply {
public:
  [[nodiscard]] bool counts() const noexcept override {
    return false;
  }
};

} // namespace gpuactors
