// Who connects to the ports of a cluster and has no business there, and what that does to its processes.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/wire/certificates.hpp>

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::test {

/// A connection to a port of this machine that speaks no protocol.
class Stranger {
public:
  explicit Stranger(std::uint16_t port);

  /// Sends these bytes, or as many as the other side takes before it ends the connection.
  void say(std::string_view bytes) const;

  /// Says the greeting that it hears, as a process of the other one's release does.
  void greet() const;

  /// Whether the other side ends the connection within ten seconds, whatever it says before.
  [[nodiscard]] bool is_sent_away() const;

  /// Whether it has done so by now.
  [[nodiscard]] bool was_sent_away() const;

  [[nodiscard]] int socket() const noexcept {
    return socket_.get();
  }

private:
  detail::Descriptor socket_;
};

/// Speaks TLS with a port, trusting it whoever it is.
/// @returns what the other side has against the certificate, or none, in OpenSSL's words; empty if it has nothing.
std::string tls_refusal(std::uint16_t port, const std::optional<CertificateFiles>& own);

/// TCP ports that these processes listen at.
std::set<std::uint16_t> listening_ports(const std::vector<pid_t>& pids);

/// Memory that a process holds; 0 when it is gone.
std::size_t resident_bytes(pid_t pid);

} // namespace gpuactors::test
