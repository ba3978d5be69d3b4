#include <apps/serve/http/route.hpp>

#include <algorithm>
#include <vector>

namespace serve {

namespace {

using Segments = std::vector<std::string>;

// The longest path has six segments.
constexpr std::size_t most_segments = 8;

int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// Resolves "%20" and the like; none when something else follows a percent sign, and for a zero.
std::optional<std::string> decode(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0 || (high == 0 && low == 0))
      return std::nullopt;
    result += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return result;
}

/// The parts between slashes; none when there are too many, or one is empty or cannot be decoded.
std::optional<Segments> split(std::string_view path) {
  if (path.empty() || path.front() != '/')
    return std::nullopt;
  path.remove_prefix(1);
  if (!path.empty() && path.back() == '/')
    path.remove_suffix(1);
  Segments result;
  while (result.size() <= most_segments) {
    const auto slash = path.find('/');
    auto segment = decode(path.substr(0, slash));
    if (!segment || segment->empty())
      return std::nullopt;
    result.push_back(std::move(*segment));
    if (slash == std::string_view::npos)
      return result;
    path.remove_prefix(slash + 1);
  }
  return std::nullopt;
}

std::optional<Route> model_route(const Segments& segments) {
  if (segments.size() == 3 && segments[2] == "stats")
    return Route{EndpointKind::all_statistics, {}, {}};
  Route route{EndpointKind::model, segments[2], {}};
  std::size_t next = 3;
  if (segments.size() >= 5 && segments[3] == "versions") {
    route.version = segments[4];
    next = 5;
  }
  if (segments.size() == next)
    return route;
  if (segments.size() != next + 1)
    return std::nullopt;
  const auto& what = segments[next];
  if (what == "infer")
    route.endpoint = EndpointKind::infer;
  else if (what == "generate")
    route.endpoint = EndpointKind::generate;
  else if (what == "generate_stream")
    route.endpoint = EndpointKind::generate_stream;
  else if (what == "ready")
    route.endpoint = EndpointKind::model_ready;
  else if (what == "config")
    route.endpoint = EndpointKind::model_config;
  else if (what == "stats")
    route.endpoint = EndpointKind::model_statistics;
  else
    return std::nullopt;
  return route;
}

std::optional<Route> openai_route(const Segments& segments) {
  if (segments.size() == 2 && segments[1] == "completions")
    return Route{EndpointKind::completions, {}, {}};
  if (segments.size() == 3 && segments[1] == "chat" && segments[2] == "completions")
    return Route{EndpointKind::chat_completions, {}, {}};
  if (segments.size() == 2 && segments[1] == "models")
    return Route{EndpointKind::openai_models, {}, {}};
  return std::nullopt;
}

std::optional<Route> repository_route(const Segments& segments) {
  if (segments.size() == 3 && segments[2] == "index")
    return Route{EndpointKind::index, {}, {}};
  if (segments.size() != 5 || segments[2] != "models")
    return std::nullopt;
  if (segments[4] == "load")
    return Route{EndpointKind::load, segments[3], {}};
  if (segments[4] == "unload")
    return Route{EndpointKind::unload, segments[3], {}};
  return std::nullopt;
}

} // namespace

std::string_view path_of(std::string_view target) {
  if (const auto scheme = target.find("://"); scheme != std::string_view::npos && target.front() != '/') {
    const auto slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target.substr(0, target.find_first_of("?#"));
}

std::optional<Route> find_route(std::string_view target) {
  const auto segments = split(path_of(target));
  if (!segments)
    return std::nullopt;
  if (segments->front() == "metrics" && segments->size() == 1)
    return Route{EndpointKind::metrics, {}, {}};
  if (segments->front() == "v1")
    return openai_route(*segments);
  if (segments->front() != "v2")
    return std::nullopt;
  if (segments->size() == 1)
    return Route{EndpointKind::server, {}, {}};
  const auto& part = (*segments)[1];
  if (part == "health" && segments->size() == 3 && (*segments)[2] == "live")
    return Route{EndpointKind::live, {}, {}};
  if (part == "health" && segments->size() == 3 && (*segments)[2] == "ready")
    return Route{EndpointKind::ready, {}, {}};
  if (part == "models" && segments->size() >= 3)
    return model_route(*segments);
  if (part == "repository")
    return repository_route(*segments);
  return std::nullopt;
}

bool is_inference(EndpointKind endpoint) noexcept {
  return endpoint == EndpointKind::infer || endpoint == EndpointKind::generate
         || endpoint == EndpointKind::generate_stream || endpoint == EndpointKind::completions
         || endpoint == EndpointKind::chat_completions;
}

std::string_view name_of(const Route& route) noexcept {
  const bool has_version = !route.version.empty();
  switch (route.endpoint) {
  case EndpointKind::infer:
    return has_version ? "POST /v2/models/{model}/versions/{version}/infer" : "POST /v2/models/{model}/infer";
  case EndpointKind::generate:
    return has_version ? "POST /v2/models/{model}/versions/{version}/generate" : "POST /v2/models/{model}/generate";
  case EndpointKind::generate_stream:
    return has_version ? "POST /v2/models/{model}/versions/{version}/generate_stream"
                       : "POST /v2/models/{model}/generate_stream";
  case EndpointKind::completions:
    return "POST /v1/completions";
  case EndpointKind::chat_completions:
    return "POST /v1/chat/completions";
  case EndpointKind::load:
    return "POST /v2/repository/models/{model}/load";
  case EndpointKind::unload:
    return "POST /v2/repository/models/{model}/unload";
  default:
    return "HTTP";
  }
}

std::string_view method_of(EndpointKind endpoint) noexcept {
  switch (endpoint) {
  case EndpointKind::infer:
  case EndpointKind::generate:
  case EndpointKind::generate_stream:
  case EndpointKind::completions:
  case EndpointKind::chat_completions:
  case EndpointKind::index:
  case EndpointKind::load:
  case EndpointKind::unload:
    return "POST";
  default:
    return "GET";
  }
}

} // namespace serve
