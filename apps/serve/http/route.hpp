// What the path of an HTTP request names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace serve {

enum class EndpointKind : std::uint8_t {
  live,
  ready,
  server,
  model,
  model_ready,
  model_config,
  model_statistics,
  all_statistics,
  infer,
  generate,
  generate_stream,
  /// OpenAI's paths, whose bodies name the model.
  completions,
  chat_completions,
  openai_models,
  index,
  load,
  unload,
  metrics,
};

struct Route {
  EndpointKind endpoint = EndpointKind::live;
  std::string model;
  /// Empty when the path names none.
  std::string version;
};

/// The route of a request's target: a path with or without query, or a whole URL. None where there is nothing.
[[nodiscard]] std::optional<Route> find_route(std::string_view target);

/// Whether it asks a model, with a body that may be large.
[[nodiscard]] bool is_inference(EndpointKind endpoint) noexcept;

/// The path of a target.
[[nodiscard]] std::string_view path_of(std::string_view target);

/// What requests that ask models, load or unload them are called, without what each one names:
/// "POST /v2/models/{model}/infer".
[[nodiscard]] std::string_view name_of(const Route& route) noexcept;

/// The method that an endpoint is asked with: "GET" (then also HEAD) or "POST".
[[nodiscard]] std::string_view method_of(EndpointKind endpoint) noexcept;

} // namespace serve
