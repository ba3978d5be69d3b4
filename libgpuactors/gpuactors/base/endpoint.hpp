// Endpoint: the address on which a process listens, in text form.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// A host name or address, and a TCP port.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Parses "HOST:PORT"; an IPv6 address is in brackets, "[::1]:7711". The port may be 0 if the system chooses one.
/// @returns `invalid_argument`, naming what is missing.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);

/// Parses one or more endpoints separated by commas: "10.0.0.1:7711,10.0.0.2:7711".
/// @returns `invalid_argument` as `parse_endpoint`, and for an address that occurs twice.
[[nodiscard]] Result<std::vector<Endpoint>> parse_endpoints(std::string_view text);

/// Renders the form that `parse_endpoint` reads.
[[nodiscard]] std::string to_string(const Endpoint& endpoint);

/// Renders the form that `parse_endpoints` reads.
[[nodiscard]] std::string to_string(const std::vector<Endpoint>& endpoints);

/// Returns whether the host stands for all addresses of a machine ("0.0.0.0", "::"), at which a process can listen but
/// not be reached.
[[nodiscard]] bool is_any_address(std::string_view host) noexcept;

/// Returns whether only this machine can reach the host: a loopback address or "localhost".
[[nodiscard]] bool is_loopback(std::string_view host) noexcept;

} // namespace gpuactors
