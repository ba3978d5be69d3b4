// Spans in the form of OTLP. Pure.
#pragma once

#include <gpuactors/trace/span_record.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

/// Returns the body of the request with which `spans` go to a collector (`application/x-protobuf`).
/// @param resource what the process is.
/// @param now this moment by the steady clock, by which spans are measured, and `unix_now` by the system's, which
///        collectors show.
[[nodiscard]] std::string to_otlp(const std::vector<std::pair<std::string, std::string>>& resource,
                                  const std::vector<SpanRecord>& spans, TimePoint now,
                                  std::chrono::system_clock::time_point unix_now);

} // namespace gpuactors
