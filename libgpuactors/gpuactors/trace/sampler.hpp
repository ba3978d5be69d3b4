// Sampler: which traces are recorded. Pure.
#pragma once

#include <gpuactors/base/trace_context.hpp>

namespace gpuactors {

/// The samplers of OpenTelemetry's specification (`OTEL_TRACES_SAMPLER`).
struct Sampler {
  /// The part of traces that is recorded where they begin; which ones depends on their ids alone, so that all
  /// processes agree about a trace.
  double ratio = 1;
  /// Whether a part of a trace is recorded if what it is a part of is.
  bool by_parent = true;

  /// @param parent not valid where a trace begins.
  /// @param trace_low of the trace.
  [[nodiscard]] bool samples(const TraceContext& parent, std::uint64_t trace_low) const noexcept;
};

} // namespace gpuactors
