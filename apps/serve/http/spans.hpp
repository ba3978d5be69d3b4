// The spans of requests over HTTP, by OpenTelemetry's conventions.
#pragma once

#include <gpuactors/trace/span.hpp>

#include <apps/serve/http/api.hpp>

#include <optional>

namespace serve {

/// Begins the span of a request whose header has come, as a part of what its client says.
/// @param route Where it leads; none if it is refused. The name is the route's: paths of strangers are any text.
[[nodiscard]] gpuactors::OpenSpan begin_span(const HttpHead& head, const std::optional<Route>& route, bool tls);

} // namespace serve
