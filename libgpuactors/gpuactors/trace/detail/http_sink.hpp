// The way of spans to a collector: libcurl, which is loaded when it is needed.
#pragma once

#include <gpuactors/trace/tracer.hpp>

namespace gpuactors::detail {

/// Makes the sink that posts to `options.url`.
/// @returns `unsupported` if libcurl is not installed.
Result<std::unique_ptr<SpanSink>> make_http_sink(const TraceOptions& options);

/// Adds to `options.resource` what is known of this process, unless it is there.
void describe_process(TraceOptions& options);

} // namespace gpuactors::detail
