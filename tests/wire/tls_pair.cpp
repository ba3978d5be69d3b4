#include "tls_pair.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

namespace gpuactors::test {

namespace {

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Session = std::unique_ptr<SSL, decltype(&SSL_free)>;

std::string error_text() {
  std::string text;
  while (const auto code = ERR_get_error())
    text += std::string{ERR_error_string(code, nullptr)} + "; ";
  return text;
}

Context context_of(const TlsSide& side) {
  Context context{SSL_CTX_new(TLS_method()), &SSL_CTX_free};
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_load_verify_locations(context.get(), side.authority.c_str(), nullptr);
  if (!side.certificate.empty()) {
    SSL_CTX_use_certificate_file(context.get(), side.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context.get(), side.key.c_str(), SSL_FILETYPE_PEM);
  }
  return context;
}

/// Goes on with one side: whether it has agreed; adds why it refused.
bool step(SSL& side, std::string& refused) {
  const int result = SSL_do_handshake(&side);
  if (result == 1)
    return true;
  if (SSL_get_error(&side, result) != SSL_ERROR_WANT_READ)
    refused += error_text();
  ERR_clear_error();
  return false;
}

} // namespace

std::string handshake(const TlsSide& server, const TlsSide& client, const std::string& host) {
  const auto server_context = context_of(server);
  const auto client_context = context_of(client);
  if (auto text = error_text(); !text.empty())
    return "files: " + text;
  const Session accepting{SSL_new(server_context.get()), &SSL_free};
  const Session connecting{SSL_new(client_context.get()), &SSL_free};
  // What one writes, the other reads.
  BIO* server_end = nullptr;
  BIO* client_end = nullptr;
  BIO_new_bio_pair(&server_end, 0, &client_end, 0);
  SSL_set_bio(accepting.get(), server_end, server_end);
  SSL_set_bio(connecting.get(), client_end, client_end);
  SSL_set_accept_state(accepting.get());
  SSL_set_connect_state(connecting.get());
  SSL_set1_host(connecting.get(), host.c_str());
  std::string refused;
  for (int turn = 0; turn < 20 && refused.empty(); ++turn) {
    const bool connected = step(*connecting, refused);
    const bool accepted = step(*accepting, refused);
    if (connected && accepted)
      return {};
  }
  return refused.empty() ? "neither agreed nor refused" : refused;
}

} // namespace gpuactors::test
