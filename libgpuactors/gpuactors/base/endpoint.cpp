#include <gpuactors/base/endpoint.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace gpuactors {

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto bad = [&](std::string_view why) {
    return fail(Errc::invalid_argument,
                fmt::format("\"{}\" is no HOST:PORT: {}; 127.0.0.1:7711 would be right", text, why));
  };
  if (colon == std::string_view::npos)
    return bad("the port is missing");
  auto host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return bad("an IPv6 address stands in brackets");
  if (host.empty())
    return bad("the host is missing");
  const auto digits = text.substr(colon + 1);
  Endpoint result;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result.port);
  if (digits.empty() || error != std::errc{} || stop != digits.data() + digits.size())
    return bad(fmt::format("the port is \"{}\", a number from 0 to 65535 is expected", digits));
  result.host = host;
  return result;
}

Result<std::vector<Endpoint>> parse_endpoints(std::string_view text) {
  std::vector<Endpoint> result;
  for (auto rest = text;;) {
    const auto comma = rest.find(',');
    GPUACTORS_LET(endpoint, parse_endpoint(rest.substr(0, comma)));
    if (std::find(result.begin(), result.end(), endpoint) != result.end())
      return fail(Errc::invalid_argument, fmt::format("{} is in \"{}\" twice", to_string(endpoint), text));
    result.push_back(std::move(endpoint));
    if (comma == std::string_view::npos)
      return result;
    rest.remove_prefix(comma + 1);
  }
}

std::string to_string(const Endpoint& endpoint) {
  if (endpoint.host.find(':') != std::string::npos)
    return fmt::format("[{}]:{}", endpoint.host, endpoint.port);
  return fmt::format("{}:{}", endpoint.host, endpoint.port);
}

std::string to_string(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const auto& endpoint : endpoints)
    text += (text.empty() ? "" : ",") + to_string(endpoint);
  return text;
}

bool is_any_address(std::string_view host) noexcept {
  return host == "0.0.0.0" || host == "::";
}

bool is_loopback(std::string_view host) noexcept {
  // "127." alone does not suffice: a host name such as 127.example.org may resolve to any address.
  const auto is_part = [](char c) { return c == '.' || (c >= '0' && c <= '9'); };
  return host == "localhost" || host == "::1"
         || (host.starts_with("127.") && std::all_of(host.begin(), host.end(), is_part));
}

} // namespace gpuactors
