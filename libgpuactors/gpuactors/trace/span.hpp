// Spans: pieces of work that a program records, so that one sees where a request spends its time across processes.
//
//   gpuactors::Result<Reply> Ranker::rank(const Query& query) {
//     gpuactors::Span span{"rank.tokenize"};        // a part of the call that this thread serves
//     span.set("rank.tokens", static_cast<std::int64_t>(query.text_size()));
//     ...
//   }
//
// They go to a collector of OpenTelemetry, where the environment of the process says so (docs/guide/tracing.md);
// otherwise they cost a few instructions. What they mean follows OpenTelemetry's specification of tracing.
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
/// environment when it was first asked. Any thread.
[[nodiscard]] bool records_traces();

/// Waits until what was recorded has been sent, or could not be, at most for `timeout`. It is sent by itself within
/// seconds, and at the orderly end of the process. Any thread.
void flush_traces(Duration timeout);

/// A piece of work that is not over, without a thread: it may begin on one and end on another. One thread at a time.
/// Movable; a moved-from one does nothing. It ends once, at the latest when it is destroyed.
class OpenSpan {
public:
  /// No span: all that it is told has no effect.
  OpenSpan() = default;

  /// Begins a part of `parent`, or a trace if that is not valid. Whether it is recorded is the sampler's decision.
  explicit OpenSpan(std::string_view name, SpanKind kind = SpanKind::internal,
                    const TraceContext& parent = current_trace(), TimePoint begun = Clock::now());

  OpenSpan(OpenSpan&& other) noexcept = default;
  OpenSpan& operator=(OpenSpan&& other) noexcept;
  ~OpenSpan();

  /// Returns what work that is a part of this one is given along: this span if it is recorded, else whatever it was a
  /// part of.
  [[nodiscard]] const TraceContext& context() const noexcept {
    return context_;
  }

  /// Returns whether it is recorded: whoever has to compute an attribute may ask first.
  [[nodiscard]] bool recorded() const noexcept {
    return record_ != nullptr;
  }

  /// Gives it another name: whoever has to put one together asks `recorded` first.
  void rename(std::string name) {
    if (record_ != nullptr)
      record_->name = std::move(name);
  }

  /// Adds an attribute. At most `limits::span_attributes` are kept, and texts are cut after `limits::span_text_bytes`.
  void set(std::string_view key, SpanValue value);

  /// Says that another span belongs to this one, without being a part of it. At most `limits::span_links` are kept.
  void link(const TraceContext& other);

  /// The work has failed: sets status and `error.type`.
  void fail(const Error& error);

  /// The same for errors of other kinds, as the status codes of protocols.
  void fail(std::string_view type, std::string_view message);

  /// The work is over.
  void end(TimePoint ended = Clock::now());

private:
  TraceContext context_;
  std::unique_ptr<SpanRecord> record_;
};

/// A piece of work of the thread that makes the object, until it is destroyed: what is called meanwhile is a part of
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

  /// As of `OpenSpan`.
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
