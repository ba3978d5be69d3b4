// TLS for links and bulk data: version 1.3, both sides show a certificate of the cluster's authority.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/certificates.hpp>
#include <gpuactors/wire/detail/x509.hpp>

#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace gpuactors::transport {

using TlsSession = std::unique_ptr<SSL, detail::FreeBy<SSL_free>>;

/// Loaded certificates, reloaded when their files change: a process that outlives its certificate shows the renewed one
/// from then on. Copies share the state. Any thread.
class TlsContext {
public:
  /// Loads the files. @returns `invalid_argument` for files that cannot be used.
  [[nodiscard]] static Result<TlsContext> load(const CertificateFiles& files);

  /// Opens a session over `socket`, which it does not own; the session handshakes as server if `accepts`, else as
  /// client. It never blocks and never raises SIGPIPE. If changed files cannot be used (yet), the previous certificates
  /// stay in use.
  /// @returns `unavailable` if no memory is left.
  [[nodiscard]] Result<TlsSession> open(int socket, bool accepts) const;

private:
  class Loaded;

  explicit TlsContext(std::shared_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {
    // nop
  }

  std::shared_ptr<Loaded> loaded_;
};

/// Returns the oldest of this thread's OpenSSL errors as text, and clears them all.
[[nodiscard]] std::string tls_error();

} // namespace gpuactors::transport
