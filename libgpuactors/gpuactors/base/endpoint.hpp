// Endpoint: where a process listens, as people write it.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuactors {

/// A host name or address, and a TCP port.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Reads "HOST:PORT"; an IPv6 address stands in brackets, "[::1]:7711". The port may be 0 where one is chosen.
/// @returns `invalid_argument` saying what is missing.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);

/// Renders what `parse_endpoint` reads.
[[nodiscard]] std::string to_string(const Endpoint& endpoint);

/// Whether only this machine can connect to the host: a loopback address or "localhost".
[[nodiscard]] bool is_loopback(std::string_view host) noexcept;

} // namespace gpuactors
