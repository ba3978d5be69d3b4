#include <gpuactors/wire/transport.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace gpuactors {

namespace {

constexpr std::size_t text_length = 512;
constexpr std::size_t host_length = 255;
constexpr std::size_t machine_length = 100;
constexpr std::size_t socket_length = 100; // a sockaddr_un has room for 108
constexpr std::string_view between = "://";

bool is_word(std::string_view text, std::size_t longest, std::string_view also) {
  return text.size() <= longest && std::all_of(text.begin(), text.end(), [also](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
                  || also.find(c) != std::string_view::npos;
         });
}

bool read_hex(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return error == std::errc{} && end == text.data() + text.size();
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto slash = text.find('/');
    parts.push_back(text.substr(0, slash));
    if (slash == std::string_view::npos)
      return parts;
    text.remove_prefix(slash + 1);
  }
}

bool read_endpoint(std::string_view text, BulkAddress& address) {
  auto endpoint = parse_endpoint(text);
  if (!endpoint || endpoint->port == 0 || !is_word(endpoint->host, host_length, ".:_%-"))
    return false;
  address.endpoint = std::move(*endpoint);
  return true;
}

bool read_all(std::string_view text, BulkAddress& address) {
  const auto scheme = text.substr(0, text.find(between));
  if (text.size() > text_length || scheme.size() == text.size())
    return false;
  const auto parts = split(text.substr(scheme.size() + between.size()));
  if (parts.size() != 4 || !read_hex(parts[1], address.server) || !is_word(parts[2], machine_length, "-")
      || !is_word(parts[3], socket_length, "-"))
    return false;
  address.machine = parts[2];
  address.socket = parts[3];
  address.tls = scheme != "tcp";
  if (scheme == "local")
    return parts[0].empty();
  return (scheme == "tls" || scheme == "tcp") && read_endpoint(parts[0], address);
}

} // namespace

std::string to_string(const BulkAddress& address) {
  const auto endpoint = address.endpoint.port == 0 ? std::string{} : to_string(address.endpoint);
  const auto* scheme = endpoint.empty() ? "local" : address.tls ? "tls" : "tcp";
  return fmt::format("{}://{}/{:x}/{}/{}", scheme, endpoint, address.server, address.machine, address.socket);
}

Result<BulkAddress> parse_bulk_address(std::string_view text) {
  BulkAddress address;
  if (!read_all(text, address))
    return fail(
        Errc::invalid_argument,
        fmt::format("\"{}\" is no address of bulk data: it is SCHEME://HOST:PORT/SERVER/MACHINE/SOCKET with the "
                    "scheme tls, tcp or local",
                    text.substr(0, limits::name_length)));
  return address;
}

} // namespace gpuactors
