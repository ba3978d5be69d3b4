// The floor under every call between processes: bytes over a bare TCP connection and back.
#pragma once

#include "child.hpp"

#include <cstddef>

namespace gpuactors::bench {

/// In a process of its own: writes its port, and sends back what comes over one connection until that ends.
int serve_tcp_echo();

/// A connection to such a process, which ends with it. Blocking sockets, no framing, 64 bytes each way.
class TcpEcho {
public:
  TcpEcho();
  TcpEcho(const TcpEcho&) = delete;
  TcpEcho& operator=(const TcpEcho&) = delete;
  ~TcpEcho();

  /// Microseconds of one round trip, one after the other.
  [[nodiscard]] double ask(int count) const;

private:
  Child server_;
  int socket_ = -1;
};

} // namespace gpuactors::bench
