// RequestLine: a request until it is over, for those who want to know what became of it.
#pragma once

#include <gpuactors/trace/span.hpp>

#include <apps/serve/protocol/request_log.hpp>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace serve {

/// A request's line in the log, and its span: they end with whatever is left of it, as given up, unless `end` was
/// called. One thread at a time.
class RequestLine {
public:
  /// Without a log, and without a span that is recorded, nothing comes of it.
  explicit RequestLine(std::shared_ptr<RequestLog> log, int given_up, gpuactors::OpenSpan span = {})
    : log_(std::move(log)), span_(std::move(span)) {
    about.status = given_up;
    about.trace = span_.context();
  }

  RequestLine(const RequestLine&) = delete;
  RequestLine& operator=(const RequestLine&) = delete;

  ~RequestLine() {
    end(about.status);
  }

  /// Whether anybody reads what it is about.
  [[nodiscard]] bool wanted() const noexcept {
    return log_ != nullptr || span_.recorded();
  }

  void end(int status);

  LoggedRequest about;

private:
  std::shared_ptr<RequestLog> log_;
  gpuactors::OpenSpan span_;
};

/// What a span says of a request when it is over, by OpenTelemetry's conventions; names of ours begin with
/// "gpuactors.". Pure.
[[nodiscard]] std::vector<std::pair<std::string_view, gpuactors::SpanValue>>
span_attributes_of(const LoggedRequest& request);

/// The `error.type` of a request that failed for the server's reasons. By the conventions, what clients do wrong is no
/// error of the server's span. Pure.
[[nodiscard]] std::optional<std::string> server_error_of(const LoggedRequest& request);

} // namespace serve
