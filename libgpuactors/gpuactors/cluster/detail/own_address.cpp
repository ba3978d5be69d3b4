#include <gpuactors/cluster/detail/own_address.hpp>

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

namespace gpuactors::detail {

Result<std::string> address_towards(const Endpoint& to) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const auto code = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found); code != 0)
    return fail(Errc::unavailable, fmt::format("the host {} cannot be found: {}", to.host, ::gai_strerror(code)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses{found, ::freeaddrinfo};
  const int socket = ::socket(addresses->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  std::array<char, NI_MAXHOST> text{};
  const bool done =
      socket >= 0 && ::connect(socket, addresses->ai_addr, addresses->ai_addrlen) == 0
      && ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0
      && ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST)
             == 0;
  if (socket >= 0)
    ::close(socket);
  if (!done)
    return fail(
        Errc::unavailable,
        fmt::format("no way to {}: say where this machine can be reached (--host of a node, --advertise of a broker)",
                    to.host));
  return std::string{text.data()};
}

Result<Endpoint> advertised(const std::string& told, const Endpoint& listen, const Endpoint& other) {
  if (!told.empty())
    return parse_endpoint(told);
  if (!is_any_address(listen.host))
    return listen;
  GPUACTORS_LET(host, address_towards(other));
  return Endpoint{std::move(host), listen.port};
}

Result<void> check_advertised(const std::string& told) {
  if (told.empty())
    return {};
  GPUACTORS_LET(endpoint, parse_endpoint(told));
  if (is_any_address(endpoint.host) || endpoint.port == 0)
    return fail(Errc::invalid_argument, fmt::format("{} is no address by which others reach this broker: 10.0.0.1:7711 "
                                                    "would be one",
                                                    told));
  return {};
}

Result<std::string> address_towards(const std::vector<Endpoint>& to) {
  Result<std::string> own = fail(Errc::invalid_argument, "no address was given");
  for (const auto& endpoint : to)
    if (own = address_towards(endpoint); own)
      break;
  return own;
}

} // namespace gpuactors::detail
