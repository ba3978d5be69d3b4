#include <apps/serve/protocol/request_line.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <string>

namespace serve {

using gpuactors::SpanValue;
using gpuactors::to_seconds;

namespace {

constexpr std::string_view grpc_front = "grpc";

constexpr int first_server_error = 500;

/// The codes of gRPC that say that the server is to blame; empty: the others.
constexpr std::array<std::string_view, 17> server_errors = {
    "", "", "UNKNOWN",       "",         "DEADLINE_EXCEEDED", "",         "", "", "", "",
    "", "", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",       "DATA_LOSS"};

/// "10.0.0.7:40112" or "[::1]:40112" as address and port; without the latter if it has none.
std::pair<std::string_view, std::optional<std::int64_t>> split_client(std::string_view client) {
  const auto colon = client.rfind(':');
  if (colon == std::string_view::npos)
    return {client, std::nullopt};
  std::int64_t port = 0;
  const auto digits = client.substr(colon + 1);
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || stop != digits.data() + digits.size())
    return {client, std::nullopt};
  auto address = client.substr(0, colon);
  if (address.size() > 2 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  return {address, port};
}

} // namespace

std::vector<std::pair<std::string_view, SpanValue>> span_attributes_of(const LoggedRequest& request) {
  std::vector<std::pair<std::string_view, SpanValue>> attributes;
  const auto add = [&](std::string_view key, auto value) { attributes.emplace_back(key, std::move(value)); };
  const auto add_text = [&](std::string_view key, std::string_view text) {
    if (!text.empty())
      add(key, std::string{text});
  };
  add(request.front == grpc_front ? "rpc.grpc.status_code" : "http.response.status_code", std::int64_t{request.status});
  const auto [address, port] = split_client(request.client);
  add_text("client.address", address);
  if (port)
    add("client.port", *port);
  add_text("gpuactors.request_id", request.id);
  add_text("gpuactors.model", request.model);
  add_text("gpuactors.version", request.version);
  if (request.first)
    add("gpuactors.first_seconds", to_seconds(*request.first));
  if (request.times) {
    add("gpuactors.queue_seconds", to_seconds(request.times->queued));
    add("gpuactors.infer_seconds", to_seconds(request.times->inferred));
    add("gpuactors.batch_rows", static_cast<std::int64_t>(request.times->batch_rows));
  }
  return attributes;
}

std::optional<std::string> server_error_of(const LoggedRequest& request) {
  const auto status = static_cast<std::size_t>(request.status);
  if (request.front != grpc_front)
    return request.status >= first_server_error ? std::optional{std::to_string(request.status)} : std::nullopt;
  return status < server_errors.size() && !server_errors[status].empty()
             ? std::optional{std::string{server_errors[status]}}
             : std::nullopt;
}

void RequestLine::end(int status) {
  about.status = status;
  if (span_.recorded()) {
    for (auto& [key, value] : span_attributes_of(about))
      span_.set(key, std::move(value));
    if (about.times)
      span_.link(about.times->batch);
    // The status says all: a sentence may be the client's own words.
    if (const auto error = server_error_of(about))
      span_.fail(*error, {});
    span_.end();
  }
  if (const auto log = std::exchange(log_, nullptr))
    log->add(std::move(about));
}

} // namespace serve
