// Messages on behalf of users, apart from how they travel: calls, and the items of streamed replies.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/trace_context.hpp>
#include <gpuactors/wire/payload.hpp>

#include <string>

namespace gpuactors {

/// A call of an actor's method, or a task, sent on behalf of a user. Answered with a `Payload`.
///
/// CAF programs may send `(std::string method, Payload)` instead, without deadline and cancellation.
struct Call {
  /// Name of the method, or of the task.
  std::string method;
  Payload payload;
  /// The time after which nobody waits for the answer. On the wire it travels as the remaining time.
  TimePoint deadline = never;
  /// Unique among all clients, so that the call can be cancelled.
  CallId id;
  /// Whether the caller wants the reply as a stream; it initially allows `limits::stream_window` items.
  bool stream = false;
  /// When the caller made the call; `TimePoint{}` if the caller does not say. It travels on the wire as the time since
  /// then, so the time on the way is not included.
  TimePoint made{};
  /// The span of the caller to which the call belongs; not valid if there is none.
  TraceContext trace{};
};

/// One item of a streamed reply, in order, before the call's own answer.
struct StreamItem {
  CallId call;
  Payload payload;
};

} // namespace gpuactors
