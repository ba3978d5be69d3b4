// TraceOptions: what OpenTelemetry's environment variables say about where spans go.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/trace/sampler.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

/// How this process records and sends spans. The names of the variables and their defaults are OpenTelemetry's.
struct TraceOptions {
  /// Where batches are posted to, with the path: "http://localhost:4318/v1/traces".
  std::string url;
  /// Further fields of each request, as for a token.
  std::vector<std::pair<std::string, std::string>> headers;
  /// A file of certificates that the collector's is checked with; empty: those of the system.
  std::string certificate;
  /// How long a request may take.
  Duration timeout = std::chrono::seconds{10};
  Sampler sampler;
  /// What this process is: `service.name` and others.
  std::vector<std::pair<std::string, std::string>> resource;
  /// A batch goes out when there are so many spans, or so long after the last one.
  std::size_t batch = 512;
  Duration delay = std::chrono::seconds{5};
  /// So many spans wait; further ones are lost.
  std::size_t queue = 2048;
};

/// Returns the value of an environment variable; nothing if it is not set.
using Variables = std::function<std::optional<std::string>(const char*)>;

/// Reads the options.
/// @returns nothing if no spans are recorded: neither `OTEL_EXPORTER_OTLP_ENDPOINT` nor
///          `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set, nor is `OTEL_TRACES_EXPORTER` "otlp"; or `OTEL_SDK_DISABLED`
///          is true, or `OTEL_TRACES_EXPORTER` is "none". `invalid_argument` names the variable and what it may be.
[[nodiscard]] Result<std::optional<TraceOptions>> read_trace_options(const Variables& variable);

} // namespace gpuactors
