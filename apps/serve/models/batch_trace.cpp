#include "batch_trace.hpp"

namespace serve {

using batching::RequestPtr;
using gpuactors::OpenSpan;
using gpuactors::SpanKind;
using gpuactors::TimePoint;
using gpuactors::TraceContext;

namespace {

const TraceContext& trace_of(const RequestPtr& request) {
  return static_cast<const Pending&>(*request).request.trace;
}

} // namespace

void begin_wait(Pending& pending, TimePoint since) {
  if (const auto& trace = pending.request.trace; trace.valid())
    pending.wait = OpenSpan{"queue", SpanKind::internal, trace, since};
}

void fail_wait(Pending& pending, const gpuactors::Error& error, TimePoint now) {
  pending.wait.fail(error);
  pending.wait.end(now);
}

BatchTrace::BatchTrace(const std::vector<RequestPtr>& members, std::uint64_t rows, const ModelFacts& facts,
                       TimePoint now) {
  for (std::size_t i = 0; i < members.size() && !context.sampled; ++i)
    if (const auto& trace = trace_of(members[i]); trace.valid() && (trace.sampled || !context.valid())) {
      context = trace;
      parent = i;
    }
  if (!context.valid())
    return;
  if (!facts.generative) {
    span = OpenSpan{"batch", SpanKind::internal, context, now};
    context = span.context();
  }
  if (span.recorded()) {
    span.set("gpuactors.model", facts.name);
    span.set("gpuactors.version", facts.version);
    span.set("gpuactors.batch_rows", static_cast<std::int64_t>(rows));
    span.set("gpuactors.batch_requests", static_cast<std::int64_t>(members.size()));
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (const auto& trace = trace_of(members[i]); i != parent && trace.sampled)
      span.link(trace);
    // Links of the wait and of the request itself (`ReplyTimes::batch`) lead to the batch from all traces that it is no
    // part of: views of traces, Jaeger's and Tempo's among them, show the links that a span has, and not those to it.
    // The wait has one also when the batch fails, and when it is the second one that the request was in.
    auto& wait = static_cast<Pending&>(*members[i]).wait;
    if (span.recorded() && i != parent)
      wait.link(span.context());
    wait.end(now);
  }
}

TraceContext BatchTrace::seen_by(std::size_t member) const noexcept {
  return member != parent && span.recorded() ? span.context() : TraceContext{};
}

} // namespace serve
