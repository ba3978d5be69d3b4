// One raw stream over loopback: the floor under bulk data between nodes.
#pragma once

#include <gpuactors/wire/certificates.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace gpuactors::bench {

/// A thread that sends `bytes` bytes again and again over one connection, each time it is asked, and who receives them.
/// Blocking sockets, no checks of progress, a buffer that is always the same: as fast as the link goes.
class RawStream {
public:
  /// With TLS 1.3 if there are certificates, and the same cipher as the library's.
  RawStream(std::size_t bytes, const std::optional<CertificateFiles>& certificates);
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;
  ~RawStream();

  /// Receives them once; ends the program when it cannot.
  void receive();

private:
  class End;
  struct State;

  std::unique_ptr<State> state_;
};

} // namespace gpuactors::bench
