// What the spans of calls have in common, those of callers and those of whoever serves.
#pragma once

#include <gpuactors/trace/span.hpp>

#include <string>
#include <string_view>

namespace gpuactors::detail {

/// Whether calls of a method are traced: the library's own ones carry the parts of its operations, which have spans
/// themselves.
/// @param type of the actor; empty for a task.
inline bool is_traced(std::string_view type, std::string_view method) noexcept {
  constexpr std::string_view own = "gpuactors.";
  return type.empty() || method.substr(0, own.size()) != own;
}

/// Names a span that is recorded after what it calls, and sets the attributes that say so (OpenTelemetry's conventions
/// for calls of procedures).
inline void describe_call(OpenSpan& span, std::string_view type, const std::string& method) {
  span.set("rpc.system", "gpuactors");
  span.set("rpc.method", method);
  if (type.empty())
    return;
  span.set("rpc.service", std::string{type});
  span.rename(std::string{type}.append("/").append(method));
}

} // namespace gpuactors::detail
