#include <apps/serve/http/api.hpp>
#include <apps/serve/http/generation.hpp>
#include <apps/serve/http/inference.hpp>
#include <apps/serve/protocol/documents.hpp>
#include <apps/serve/protocol/json_text.hpp>
#include <apps/serve/protocol/openai.hpp>
#include <apps/serve/protocol/parameters.hpp>
#include <apps/serve/protocol/status.hpp>

#include <fmt/format.h>

#include <set>
#include <utility>

namespace serve {

using gpuactors::Result;

namespace {

HttpAnswer document(std::string text) {
  HttpAnswer answer;
  answer.text = std::move(text);
  return answer;
}

HttpAnswer refusal_for(const gpuactors::Error& error) {
  return refusal(http_status(error.code()), error.message());
}

/// The document that `write` makes of a result.
template <class Value, class Write>
HttpAnswer document_of(const Result<Value>& result, Write write) {
  return result ? document(write(*result)) : refusal_for(result.error());
}

/// {"NAME": true}, with status 503 where it is false.
/// @param reason  why, if somebody knows.
HttpAnswer condition(std::string_view name, bool holds, std::string_view model = {}, std::string_view reason = {}) {
  JsonText json;
  json.object();
  if (!model.empty())
    json.key("name").value(model);
  json.key(name).value(holds);
  if (!reason.empty())
    json.key("reason").value(reason);
  json.close();
  auto answer = document(std::move(json).take());
  answer.status = holds ? 200 : 503;
  return answer;
}

bool is_supported(std::string_view encoding) {
  return encoding.empty() || encoding == "identity" || encoding == "gzip" || encoding == "deflate";
}

} // namespace

HttpAnswer refusal(int status, std::string_view sentence) {
  auto answer = document(error_document(sentence));
  answer.status = status;
  return answer;
}

std::optional<Route> HttpApi::admit(const HttpHead& head, HttpAnswer& refused) const {
  auto route = find_route(head.target);
  const auto open = route && (route->endpoint == EndpointKind::live || route->endpoint == EndpointKind::ready);
  // First, so that only those who may ask learn which paths there are.
  const auto tokens = state_->tokens.get();
  const auto rights = tokens->rights_of(head.authorization);
  if (!open && rights == Rights::none) {
    refused = refusal(401, token_wanted);
    return std::nullopt;
  }
  const auto& options = state_->options;
  if (!open && !tokens->required() && options.http
      && !is_from_here(*options.http, options.tls.has_value(), head.host, head.origin)) {
    refused = refusal(403, from_elsewhere);
    return std::nullopt;
  }
  if (!route) {
    refused = refusal(404, "there is nothing at this path: the protocol's paths begin with /v2, OpenAI's with /v1, "
                           "metrics are at /metrics");
    return std::nullopt;
  }
  if (rights != Rights::all && (route->endpoint == EndpointKind::load || route->endpoint == EndpointKind::unload)) {
    refused = refusal(403, may_only_ask);
    return std::nullopt;
  }
  const auto method = method_of(route->endpoint);
  if (head.method != method && !(head.method == "HEAD" && method == "GET")) {
    refused = refusal(405, fmt::format("this path is asked with {}", method));
    refused.allow = method;
    return std::nullopt;
  }
  if (!is_supported(head.content_encoding)
      || (route->endpoint != EndpointKind::infer && !head.content_encoding.empty()
          && head.content_encoding != "identity")) {
    refused = refusal(415, "this Content-Encoding is not supported: gzip and deflate are, for /infer");
    return std::nullopt;
  }
  return route;
}

bool HttpApi::is_known(const HttpHead& head) const {
  return state_->tokens.get()->accept(head.authorization);
}

std::shared_ptr<Service::Ticket> HttpApi::answer(const HttpHead& head, const gpuactors::TraceContext& trace,
                                                 Route route, Bytes body, Done done) const {
  state_->http_requests.fetch_add(1, std::memory_order_relaxed);
  switch (route.endpoint) {
  case EndpointKind::infer:
    return infer_over_http(state_, head, trace, std::move(route), std::move(body), std::move(done));
  case EndpointKind::generate:
  case EndpointKind::generate_stream:
  case EndpointKind::completions:
  case EndpointKind::chat_completions:
    return generate_over_http(state_, trace, std::move(route), std::move(body), std::move(done));
  case EndpointKind::load:
  case EndpointKind::unload:
    control(route, body, done);
    return nullptr;
  default:
    done(look(route, body));
    return nullptr;
  }
}

HttpAnswer HttpApi::look(const Route& route, const Bytes& body) const {
  switch (route.endpoint) {
  case EndpointKind::live:
    return condition("live", true);
  case EndpointKind::ready:
    return server_ready();
  case EndpointKind::server:
    return document(server_document(state_->options.server_name, state_->options.server_version));
  case EndpointKind::all_statistics:
    return document_of(state_->service.statistics("", ""),
                       [](const auto& models) { return statistics_document(models); });
  case EndpointKind::openai_models:
    return document(openai_models(models_with_texts(), state_->started_seconds));
  case EndpointKind::index:
    return document_of(read_index_request(body),
                       [this](bool ready_only) { return index_document(state_->service.repository(), ready_only); });
  case EndpointKind::metrics: {
    auto answer = document(metrics());
    answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return answer;
  }
  default:
    return look_at_model(route);
  }
}

HttpAnswer HttpApi::server_ready() const {
  if (!state_->stays())
    return condition("ready", false, {}, "the server ends");
  // Whoever has no token learns no names.
  const auto ready = state_->service.ready();
  return condition("ready", ready, {}, ready ? "" : "not all models serve: POST v2/repository/index says why");
}

std::vector<std::string> HttpApi::models_with_texts() const {
  std::set<std::string> names;
  for (const auto& entry : state_->service.repository())
    if (const auto model = state_->service.describe(entry.name, ""); model && writes_texts(*model))
      names.insert(entry.name);
  return {names.begin(), names.end()};
}

std::string HttpApi::why_not_ready(const Route& route) const {
  // Without a version, the model's own comes first.
  for (const auto& entry : state_->service.repository())
    if (entry.name == route.model && (route.version.empty() || entry.version == route.version)
        && entry.state != "READY")
      return entry.reason;
  return {};
}

HttpAnswer HttpApi::look_at_model(const Route& route) const {
  auto& service = state_->service;
  if (route.endpoint == EndpointKind::model_ready) {
    const auto ready = service.model_ready(route.model, route.version);
    if (!ready)
      return refusal_for(ready.error());
    return condition("ready", *ready, route.model, *ready ? std::string{} : why_not_ready(route));
  }
  if (route.endpoint == EndpointKind::model_statistics)
    return document_of(service.statistics(route.model, route.version),
                       [](const auto& models) { return statistics_document(models); });
  const auto write = route.endpoint == EndpointKind::model_config ? config_document : metadata_document;
  return document_of(service.describe(route.model, route.version), write);
}

void HttpApi::control(const Route& route, const Bytes& body, const Done& done) const {
  auto parameters = read_repository_parameters(body);
  if (!parameters)
    return done(refusal_for(parameters.error()));
  const auto accepted = state_->repository.run([state = state_, route, parameters = std::move(*parameters), done] {
    const auto result = route.endpoint == EndpointKind::load ? state->service.load(route.model, parameters)
                                                             : state->service.unload(route.model);
    done(result ? document("{}") : refusal_for(result.error()));
  });
  if (!accepted)
    done(refusal(503, works_too_much));
}

std::string HttpApi::metrics() const {
  auto text = state_->service.metrics();
  if (!text.empty() && text.back() != '\n')
    text += '\n';
  const auto add = [&](std::string_view name, std::string_view kind, std::string_view help, std::size_t value) {
    text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n{0} {3}\n", name, kind, help, value);
  };
  add("gpuactors_serve_http_connections", "gauge", "Open connections of the HTTP front", state_->http_connections);
  add("gpuactors_serve_http_refused_total", "counter", "Connections that were one too many", state_->http_refused);
  add("gpuactors_serve_http_requests_total", "counter", "Requests over HTTP", state_->http_requests);
  add("gpuactors_serve_grpc_requests_total", "counter", "Requests over gRPC", state_->grpc_requests);
  add("gpuactors_serve_held_bytes", "gauge", "Bytes of requests and answers that are held", state_->held->now());
  if (state_->log != nullptr)
    add("gpuactors_serve_request_log_lost_total", "counter", "Lines that the request log had no room for",
        state_->log->lost());
  const auto answers = [&](std::string_view front, std::string_view help, const StatusCounts& counts) {
    const auto name = fmt::format("gpuactors_serve_{}_answers_total", front);
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} counter\n", name, help);
    counts.each(
        [&](int status, std::uint64_t count) { text += fmt::format("{}{{status=\"{}\"}} {}\n", name, status, count); });
  };
  answers("http", "Answers over HTTP, by status", state_->http_answers);
  answers("grpc", "Answers over gRPC, by code; each one of a stream counts", state_->grpc_answers);
  return text;
}

} // namespace serve
