#include <apps/serve/http/spans.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace serve {

namespace {

/// Those that a span may be named after.
constexpr std::array<std::string_view, 9> named_methods = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                                           "CONNECT", "OPTIONS", "TRACE", "PATCH"};

} // namespace

gpuactors::OpenSpan begin_span(const HttpHead& head, const std::optional<Route>& route, bool tls) {
  const auto known = std::find(named_methods.begin(), named_methods.end(), head.method) != named_methods.end();
  const std::string_view name = route ? name_of(*route) : known ? std::string_view{head.method} : "HTTP";
  gpuactors::OpenSpan span{name, gpuactors::SpanKind::server, head.trace};
  if (!span.recorded())
    return span;
  span.set("http.request.method", known ? head.method : "_OTHER");
  if (!known)
    span.set("http.request.method_original", head.method);
  span.set("url.scheme", std::string{tls ? "https" : "http"});
  span.set("url.path", std::string{path_of(head.target)});
  if (const auto slash = name.find('/'); slash != std::string_view::npos)
    span.set("http.route", std::string{name.substr(slash)});
  return span;
}

} // namespace serve
