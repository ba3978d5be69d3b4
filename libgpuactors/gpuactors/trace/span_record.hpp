// SpanRecord: what is known of a span when it is over.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/trace_context.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gpuactors {

/// What a span is in OpenTelemetry's data model: work inside a program, the serving of a request, or the wait for
/// the answer to one.
enum class SpanKind : std::uint8_t {
  internal = 1,
  server = 2,
  client = 3,
};

/// The value of an attribute.
using SpanValue = std::variant<bool, std::int64_t, double, std::string>;

/// A span that is over.
struct SpanRecord {
  TraceContext context;
  /// The span of which this one is a part; 0 for the first one of a trace.
  std::uint64_t parent = 0;
  SpanKind kind = SpanKind::internal;
  std::string name;
  TimePoint begun{};
  TimePoint ended{};
  std::vector<std::pair<std::string, SpanValue>> attributes;
  /// Spans of the same or other traces that belong to this one in another way, such as the requests of a batch.
  std::vector<TraceContext> links;
  /// Why the work failed; nothing if it did not.
  std::optional<std::string> error;
};

} // namespace gpuactors
