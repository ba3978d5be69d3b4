// Spans: pieces of work that a program records, to show where a request spends its time across processes.
//
//   gpuactors::Result<Reply> Ranker::rank(const Query& query) {
//     gpuactors::Span span{"rank.tokenize"}; // a part of the call that this thread serves
//     span.set("rank.tokens", static_cast<std::int64_t>(query.text_size()));
//     ...
//   }
//
// Spans go to a collector of OpenTelemetry if the environment of the process names one (docs/guide/tracing.md);
// otherwise they cost a few instructions. Their meaning follows OpenTelemetry's specification of tracing.
#pragma once

#include <gpuactors/base/error.hpp>
#include <gpuactors/base/trace_context.hpp>
#include <gpuactors/trace/span_record.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace gpuactors {

/// Returns whether this process records spans: `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_TRACES_EXPORTER=otlp` was in its
/// environment at the first call. Any thread.
[[nodiscard]] bool records_traces();

/// Waits until the recorded spans have been sent, or could not be, at most `timeout`. Spans are also sent by themselves
/// within seconds, and at the orderly end of the process. Any thread.
void flush_traces(Duration timeout);

/// A span that is not tied to a thread: it may begin on one and end on another. One thread at a time. Movable; a
/// moved-from span does nothing. It ends once, at the latest when it is destroyed.
class OpenSpan {
public:
  /// Creates no span: calls of its members have no effect.
  OpenSpan() = default;

  /// Begins a part of `parent`, or a new trace if `parent` is not valid. The sampler decides whether it is recorded.
  explicit OpenSpan(std::string_view name, SpanKind kind = SpanKind::internal,
                    const TraceContext& parent = current_trace(), TimePoint begun = Clock::now());

  OpenSpan(OpenSpan&& other) noexcept = default;
  OpenSpan& operator=(OpenSpan&& other) noexcept;
  ~OpenSpan();

  /// Returns the context to pass to parts of this work: this span's if it is recorded; otherwise the parent's or, if an
  /// unsampled trace begins here, one marked unsampled, so that no part starts another trace.
  [[nodiscard]] const TraceContext& context() const noexcept {
    return context_;
  }

  /// Returns whether the span is recorded: ask before computing an attribute.
  [[nodiscard]] bool recorded() const noexcept {
    return record_ != nullptr;
  }

  /// Renames the span: ask `recorded` before composing a name.
  void rename(std::string name) {
    if (record_ != nullptr)
      record_->name = std::move(name);
  }

  /// Sets an attribute. At most `limits::span_attributes` are kept, and texts are cut after `limits::span_text_bytes`.
  void set(std::string_view key, SpanValue value);

  /// Links another span to this one, which is not a part of it. At most `limits::span_links` are kept.
  void link(const TraceContext& other);

  /// Records that the work has failed: sets status and `error.type`.
  void fail(const Error& error);

  /// Overload for errors of other kinds, such as the status codes of protocols.
  void fail(std::string_view type, std::string_view message);

  /// Ends the span.
  void end(TimePoint ended = Clock::now());

private:
  TraceContext context_;
  std::unique_ptr<SpanRecord> record_;
};

/// A span of the calling thread that lasts until the object is destroyed: spans and calls made meanwhile are parts of
/// it.
class Span {
public:
  explicit Span(std::string_view name, SpanKind kind = SpanKind::internal, const TraceContext& parent = current_trace())
    : open_(name, kind, parent), scope_(open_.context()) {
    // nop
  }

  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  [[nodiscard]] const TraceContext& context() const noexcept {
    return open_.context();
  }

  [[nodiscard]] bool recorded() const noexcept {
    return open_.recorded();
  }

  /// Like the members of `OpenSpan`.
  void set(std::string_view key, SpanValue value) {
    open_.set(key, std::move(value));
  }

  void link(const TraceContext& other) {
    open_.link(other);
  }

  void fail(const Error& error) {
    open_.fail(error);
  }

private:
  OpenSpan open_;
  TraceScope scope_;
};

} // namespace gpuactors
