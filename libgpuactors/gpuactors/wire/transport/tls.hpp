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

/// Certificates, loaded. Any thread.
class TlsContext {
public:
  /// @returns `invalid_argument` for files that cannot be used.
  [[nodiscard]] static Result<TlsContext> load(const CertificateFiles& files);

  /// A session over a socket, which it does not own; handshakes as server if `accepts`, else as client. It never
  /// blocks, and never raises SIGPIPE.
  /// @returns `unavailable` when there is no memory left.
  [[nodiscard]] Result<TlsSession> open(int socket, bool accepts) const;

private:
  using Context = std::unique_ptr<SSL_CTX, detail::FreeBy<SSL_CTX_free>>;

  explicit TlsContext(Context context) : context_(std::move(context)) {
    // nop
  }

  Context context_;
};

/// Why OpenSSL failed last in this thread; forgets it.
[[nodiscard]] std::string tls_error();

} // namespace gpuactors::transport
