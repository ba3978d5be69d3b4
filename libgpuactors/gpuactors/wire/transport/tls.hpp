// TLS for bulk data: version 1.3, both sides show a certificate of the cluster's authority.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/certificates.hpp>
#include <gpuactors/wire/detail/x509.hpp>

#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace gpuactors::transport {

using TlsSession = std::unique_ptr<SSL, detail::FreeBy<SSL_free>>;

/// Certificates, loaded, and loaded again when their files have changed: a process that runs for longer than its
/// certificate shows the renewed one from then on. Copies share them. Any thread.
class TlsContext {
public:
  /// @returns `invalid_argument` for files that cannot be used.
  [[nodiscard]] static Result<TlsContext> load(const CertificateFiles& files);

  /// A session over a socket, which it does not own; handshakes as server if `accepts`, else as client. It never
  /// blocks, and never raises SIGPIPE. Files that changed and cannot be used (yet) leave the certificates as they were.
  /// @returns `unavailable` when there is no memory left.
  [[nodiscard]] Result<TlsSession> open(int socket, bool accepts) const;

private:
  class Loaded;

  explicit TlsContext(std::shared_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {
    // nop
  }

  std::shared_ptr<Loaded> loaded_;
};

/// Why OpenSSL failed last in this thread; forgets it.
[[nodiscard]] std::string tls_error();

} // namespace gpuactors::transport
