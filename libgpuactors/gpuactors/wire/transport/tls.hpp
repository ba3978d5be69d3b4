// TLS for links and bulk data: version 1.3, both sides show a certificate of the cluster's authority.
#pragma once

#include <gpuactors/base/caller.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/certificates.hpp>
#include <gpuactors/wire/detail/x509.hpp>

#include <openssl/ssl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace gpuactors::transport {

using TlsSession = std::unique_ptr<SSL, detail::FreeBy<SSL_free>>;

/// The part that a process takes in a handshake.
enum class TlsPart {
  accepts,
  /// Connects, and refuses a server with a client's certificate.
  connects_to_node,
  /// Connects to any owner of a certificate: programs serve the tensors that they hand out.
  connects_to_any,
};

/// Loaded certificates, reloaded when their files change: a process that outlives its certificate shows the renewed one
/// from then on. Copies share the state. Any thread.
class TlsContext {
public:
  /// Is told in a line that other files are in use, that some cannot be used, and that a certificate ends soon. Any
  /// thread; must not block.
  using Notice = std::function<void(std::string_view)>;

  /// Loads the files. @returns `invalid_argument` for files that cannot be used.
  [[nodiscard]] static Result<TlsContext> load(const CertificateFiles& files, Notice notice = {});

  /// Opens a session over `socket`, which it does not own. The session never blocks and never raises SIGPIPE. If
  /// changed files cannot be used (yet), the previous certificates stay in use.
  /// @returns `unavailable` if no memory is left.
  [[nodiscard]] Result<TlsSession> open(int socket, TlsPart part) const;

  /// Returns the life of the certificate in use. Has the files looked at, once a second at most, and does not wait for
  /// that.
  [[nodiscard]] CertificateLife life() const;

private:
  friend class TlsPeer;
  class Loaded;

  explicit TlsContext(std::shared_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {
    // nop
  }

  std::shared_ptr<Loaded> loaded_;
};

/// Whoever is at the other end of a session. One thread at a time.
class TlsPeer {
public:
  /// Nobody in particular, in plaintext: a caller without a name, who is never revoked.
  TlsPeer() = default;

  /// The peer of a session whose handshake is done.
  TlsPeer(const TlsContext& context, const SSL& session);

  [[nodiscard]] const Caller& caller() const noexcept {
    return caller_;
  }

  /// Returns whether the peer's certificate has been revoked. Has the files looked at once a second at most, and does
  /// not wait for that: it may be called for each message, and by an event loop.
  [[nodiscard]] bool is_revoked();

private:
  std::shared_ptr<TlsContext::Loaded> loaded_;
  detail::Certificate certificate_;
  Caller caller_;
  // The state of the files in which the certificate was good.
  std::uint64_t good_in_ = 0;
};

/// Returns the oldest of this thread's OpenSSL errors as text, and clears them all.
[[nodiscard]] std::string tls_error();

} // namespace gpuactors::transport
