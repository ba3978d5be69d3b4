// Certificates that are replaced while a process runs.
#include "certificate_fixture.hpp"

#include <gpuactors/wire/transport/tls.hpp>

#include <support/catch.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>

using namespace gpuactors;
using namespace gpuactors::test;
using transport::TlsContext;

namespace {

std::string subject_of(X509* certificate) {
  std::array<char, 256> name{};
  X509_NAME_oneline(X509_get_subject_name(certificate), name.data(), static_cast<int>(name.size()));
  X509_free(certificate);
  return name.data();
}

/// Whom a client sees when it connects to a server; empty when the two do not agree.
std::string seen(const TlsContext& server, const TlsContext& client) {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  std::string result;
  {
    auto accepting = server.open(ends[0], true);
    auto connecting = client.open(ends[1], false);
    REQUIRE(accepting.has_value());
    REQUIRE(connecting.has_value());
    for (int turn = 0; turn < 20; ++turn) {
      const bool connected = SSL_do_handshake(connecting->get()) == 1;
      if (SSL_do_handshake(accepting->get()) == 1 && connected) {
        result = subject_of(SSL_get_peer_certificate(connecting->get()));
        break;
      }
    }
  }
  ::close(ends[0]);
  ::close(ends[1]);
  return result;
}

} // namespace

TEST_CASE_METHOD(CertificateFixture, "a certificate that is replaced is shown by who has loaded the old one",
                 "[transport]") {
  now = std::chrono::system_clock::now(); // what a handshake looks at
  REQUIRE(certs().init(10).has_value());
  REQUIRE(certs().issue({"client", {}, {}}, folder / "client").has_value());
  const auto first = certs().issue({"first", {}, {}}, folder / "server");
  REQUIRE(first.has_value());
  REQUIRE(certs().issue({"second", {}, {}}, folder / "other").has_value());
  const auto client = TlsContext::load(*certs("client").check());
  const auto server = TlsContext::load(*first);
  REQUIRE(client.has_value());
  REQUIRE(server.has_value());
  CHECK(seen(*server, *client).find("first") != std::string::npos);

  // While only one of the two files is there, the old pair serves.
  const auto replace = [&](const std::string& file) {
    std::filesystem::rename(folder / ("other/" + file), folder / ("server/" + file));
  };
  replace(first->certificate.filename().string());
  CHECK(seen(*server, *client).find("first") != std::string::npos);
  replace(first->key.filename().string());
  CHECK(seen(*server, *client).find("second") != std::string::npos);

  // Nor does a file that is gone end what works.
  std::filesystem::remove(first->certificate);
  CHECK(seen(*server, *client).find("second") != std::string::npos);
}

TEST_CASE_METHOD(CertificateFixture, "a key of another certificate is refused when it is loaded", "[transport]") {
  now = std::chrono::system_clock::now();
  REQUIRE(certs().init(10).has_value());
  auto files = certs().issue({"one", {}, {}}, folder / "one");
  const auto other = certs().issue({"two", {}, {}}, folder / "two");
  REQUIRE(files.has_value());
  REQUIRE(other.has_value());
  files->key = other->key;
  const auto loaded = TlsContext::load(*files);
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().code() == Errc::invalid_argument);
}
