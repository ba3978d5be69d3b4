// TraceContext: which span of which trace some work is for, as in W3C's Trace Context.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuactors {

/// Identifies a span of a trace. A request carries it, so that the work it causes elsewhere appears as part of that
/// span. Calls of actors and tasks carry it between processes; programs carry it to others as `traceparent`.
struct TraceContext {
  /// The 16 bytes of the trace's id, and the 8 of the span's, as numbers whose highest byte comes first.
  std::uint64_t trace_high = 0;
  std::uint64_t trace_low = 0;
  std::uint64_t span = 0;
  /// Whether the trace is recorded, as decided where it began.
  bool sampled = false;

  /// Returns false for the context of work that belongs to no trace.
  [[nodiscard]] bool valid() const noexcept {
    return (trace_high | trace_low) != 0 && span != 0;
  }

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

/// Reads the field `traceparent` of a request (https://www.w3.org/TR/trace-context/), of version 00 or a later one.
/// @returns nothing for an invalid field: the receiver of such a request begins a trace.
[[nodiscard]] std::optional<TraceContext> parse_traceparent(std::string_view text);

/// Writes a valid context as the field `traceparent`, version 00.
[[nodiscard]] std::string to_traceparent(const TraceContext& context);

/// Convert between a context and its form in messages of the library: the bytes of trace and span, most significant
/// first, and one that says whether it is sampled; no bytes for an invalid context. Other bytes are read as an invalid
/// one.
[[nodiscard]] std::string to_bytes(const TraceContext& context);
[[nodiscard]] TraceContext trace_from_bytes(std::string_view bytes) noexcept;

/// Returns the span that this thread works for: that of the innermost `TraceScope`. Not valid if there is none.
[[nodiscard]] TraceContext current_trace() noexcept;

/// Makes a span the one that this thread works for while the object lives: calls of actors and tasks that are made
/// meanwhile belong to that span. To carry a context to another thread, take `current_trace()` along. Destroy objects
/// of one thread in the reverse order of their construction.
class TraceScope {
public:
  explicit TraceScope(const TraceContext& context) noexcept;
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  ~TraceScope();

private:
  TraceContext before_;
};

} // namespace gpuactors
