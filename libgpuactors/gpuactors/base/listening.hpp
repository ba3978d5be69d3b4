// Listening: where a process listens, and by which address others reach it there.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gpuactors {

/// A range of TCP ports, both ends included, from which a process takes its listening ports. If `first` is 0, the
/// system chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  [[nodiscard]] bool is_any() const noexcept {
    return first == 0;
  }

  friend bool operator==(const PortRange&, const PortRange&) = default;
};

/// Parses "FIRST-LAST", such as "7720-7799", or one port; the ports are from 1 to 65535.
/// @returns `invalid_argument`, saying what would be right.
[[nodiscard]] Result<PortRange> parse_ports(std::string_view text);

/// Renders "7720-7799", or "any".
[[nodiscard]] std::string to_string(const PortRange& ports);

/// Where a process listens for others.
struct Listening {
  /// The name or address by which others reach it.
  std::string host{};
  /// The address of this machine at which it listens, if that differs from `host`: behind a container's bridge or NAT,
  /// where `host` is not an address of this machine. Port numbers are the same outside and inside.
  std::string bind{};
  PortRange ports{};

  /// Returns the address at which the process listens.
  [[nodiscard]] const std::string& local() const noexcept {
    return bind.empty() ? host : bind;
  }

  friend bool operator==(const Listening&, const Listening&) = default;
};

/// Listens at the first free port of a range, beginning anywhere in it: a client that connects to the port of a process
/// that has ended should rather be refused than reach the successor of that process.
/// @param begin any number; selects the port to begin with.
/// @param listen listens at a port (0 for any) and returns the actual port; `unavailable` if the next port of the range
///        may work.
/// @returns `unavailable` if no port of the range is free; other errors as `listen` returns them.
[[nodiscard]] Result<std::uint16_t> listen_in(const PortRange& ports, std::uint64_t begin,
                                              const std::function<Result<std::uint16_t>(std::uint16_t)>& listen);

} // namespace gpuactors
