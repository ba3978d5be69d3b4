// Certificates that are replaced while a process runs.
#include "certificate_fixture.hpp"

#include <gpuactors/wire/detail/loaded.hpp>
#include <gpuactors/wire/transport.hpp>
#include <gpuactors/wire/transport/tls.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>
#include <support/results.hpp>

#include <fcntl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using transport::TlsContext;
using transport::TlsPart;
using transport::TlsPeer;

namespace {

std::string subject_of(X509* certificate) {
  std::array<char, 256> name{};
  X509_NAME_oneline(X509_get_subject_name(certificate), name.data(), static_cast<int>(name.size()));
  X509_free(certificate);
  return name.data();
}

/// Whom a client sees when it connects to a server; empty when the two do not agree.
/// @param met gets whom the server sees.
std::string seen(const TlsContext& server, const TlsContext& client, TlsPart part = TlsPart::connects_to_node,
                 TlsPeer* met = nullptr) {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  std::string result;
  {
    auto accepting = server.open(ends[0], TlsPart::accepts);
    auto connecting = client.open(ends[1], part);
    REQUIRE(accepting.has_value());
    REQUIRE(connecting.has_value());
    for (int turn = 0; turn < 20; ++turn) {
      const bool connected = SSL_do_handshake(connecting->get()) == 1;
      if (SSL_do_handshake(accepting->get()) == 1 && connected) {
        result = subject_of(SSL_get_peer_certificate(connecting->get()));
        if (met != nullptr)
          *met = TlsPeer{server, **accepting};
        break;
      }
    }
  }
  ::close(ends[0]);
  ::close(ends[1]);
  return result;
}

/// A server that says what becomes of its certificate, which lasts for ten days.
struct TellingServer : CertificateFixture {
  void load(WallTime made) {
    now = made;
    REQUIRE(certs().init(10).has_value());
    files = certs().issue({"first", {}, {}}, folder / "server");
    REQUIRE(files.has_value());
    auto loaded = TlsContext::load(*files, [this](std::string_view line) { said.emplace_back(line); });
    REQUIRE(loaded.has_value());
    server = std::move(*loaded);
  }

  void look() const {
    CHECK_FALSE(seen(*server, *server).empty());
  }

  Result<CertificateFiles> files = fail(Errc::not_found, "there are none yet");
  std::optional<TlsContext> server;
  std::vector<std::string> said;
};

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

TEST_CASE_METHOD(TellingServer, "a process says that its certificate was replaced, and once why it cannot be",
                 "[transport]") {
  load(std::chrono::system_clock::now());
  look();
  CHECK(said.empty());
  const auto good = text_of(files->certificate);
  std::ofstream{files->certificate} << "none";
  look();
  look();
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("cannot be used, so those before stay in use: ") != std::string::npos);
  std::ofstream{files->certificate} << good;
  look();
  REQUIRE(said.size() == 2);
  CHECK(said[1].find("were read again: ") != std::string::npos);
}

TEST_CASE_METHOD(TellingServer, "a process warns once a day of a certificate that ends soon", "[transport]") {
  load(std::chrono::system_clock::now() - Days{9});
  look();
  look();
  REQUIRE(said.size() == 1);
  CHECK(said[0].find(" ends at ") != std::string::npos);
}

TEST_CASE_METHOD(CertificateFixture, "a client's certificate serves those only who connect to anybody", "[transport]") {
  now = std::chrono::system_clock::now();
  REQUIRE(certs().init(10).has_value());
  const auto alice = certs().issue({"alice", {}, {}, CertificateRole::client}, folder / "alice");
  REQUIRE(alice.has_value());
  const auto node = TlsContext::load(*certs().check());
  const auto client = TlsContext::load(*alice);
  REQUIRE(node.has_value());
  REQUIRE(client.has_value());
  CHECK(seen(*client, *node, TlsPart::connects_to_node).empty());
  CHECK(seen(*client, *node, TlsPart::connects_to_any).find("alice") != std::string::npos);

  TlsPeer met;
  CHECK_FALSE(seen(*node, *client, TlsPart::connects_to_node, &met).empty());
  CHECK(met.caller() == Caller{"alice", false});
  CHECK_FALSE(seen(*client, *node, TlsPart::connects_to_any, &met).empty());
  CHECK(met.caller().administers);
}

TEST_CASE_METHOD(CertificateFixture, "who is revoked is refused by all that have the list, those connected included",
                 "[transport]") {
  now = std::chrono::system_clock::now();
  REQUIRE(certs().init(10).has_value());
  REQUIRE(certs().issue({"alice", {}, {}}, folder / "alice").has_value());
  REQUIRE(certs().issue({"bob", {}, {}}, folder / "bob").has_value());
  const auto server = TlsContext::load(*certs().check());
  const auto alice = TlsContext::load(*certs("alice").check());
  const auto bob = TlsContext::load(*certs("bob").check());
  REQUIRE(server.has_value());
  REQUIRE(alice.has_value());
  REQUIRE(bob.has_value());
  TlsPeer her;
  TlsPeer him;
  CHECK_FALSE(seen(*server, *alice, TlsPart::connects_to_node, &her).empty());
  CHECK_FALSE(seen(*server, *bob, TlsPart::connects_to_node, &him).empty());
  CHECK_FALSE(her.is_revoked());

  // By a machine whose clock is ahead: the list is good at once all the same.
  now += Days{1};
  REQUIRE(certs().revoke("alice").has_value());
  CHECK(seen(*server, *alice).empty()); // the handshake looks at the files, and so the peers need not
  CHECK(her.is_revoked());
  CHECK_FALSE(him.is_revoked());
  CHECK_FALSE(seen(*server, *bob).empty());

  // A list that is gone, or unreadable, does not bring her back.
  std::filesystem::rename(folder / "certs/revoked.pem", folder / "away");
  CHECK(seen(*server, *alice).empty());
  std::ofstream{folder / "certs/revoked.pem"} << "half a li";
  CHECK(seen(*server, *alice).empty());
  CHECK(her.is_revoked());
  CHECK_FALSE(seen(*server, *bob).empty());
}

TEST_CASE_METHOD(CertificateFixture, "nothing more is fetched from who is revoked, over kept connections either",
                 "[transport]") {
  now = std::chrono::system_clock::now();
  REQUIRE(certs().init(10).has_value());
  BulkServerOptions serving;
  serving.local = false;
  serving.listening.host = "127.0.0.1";
  serving.certificates = must(certs().issue({"owner", {}, {}}, folder / "owner"));
  const auto server = must(BulkServer::start(serving));
  const auto pool = RegionPool::create();
  REQUIRE(server->add(1, must(pool->make(10, RegionReaders::process)).seal()).has_value());
  BulkClientOptions fetching;
  fetching.certificates = must(certs().check());
  const auto client = must(BulkClient::create(fetching));
  REQUIRE(client->fetch(server->address(), 1, 10, never).has_value());
  REQUIRE(client->idle_connections() == 1);
  REQUIRE(certs().revoke("owner").has_value());
  // The list is looked at once a second.
  auto outcome = Result<SharedRegion>{SharedRegion{}};
  CHECK(eventually([&] { return !(outcome = client->fetch(server->address(), 1, 10, never)); }));
  CHECK(outcome.error().code() == Errc::unavailable);
  CHECK(client->idle_connections() == 0);
}

TEST_CASE_METHOD(CertificateFixture, "nobody waits for certificates on a file system that hangs", "[transport]") {
  now = std::chrono::system_clock::now();
  REQUIRE(certs().init(10).has_value());
  auto files = must(certs().check());
  files.revoked.clear();
  const auto context = must(TlsContext::load(files));
  TlsPeer met;
  REQUIRE_FALSE(seen(context, context, TlsPart::connects_to_node, &met).empty());
  // Who opens it waits until somebody writes.
  std::filesystem::rename(files.authority, folder / "away");
  REQUIRE(::mkfifo(files.authority.c_str(), 0600) == 0);
  std::promise<std::string> shaken;
  std::promise<bool> looked;
  std::thread others{[&] {
    shaken.set_value(seen(context, context));
    looked.set_value(met.is_revoked() || context.life().until <= now);
  }};
  auto result = looked.get_future();
  CHECK(result.wait_for(std::chrono::seconds{20}) == std::future_status::ready);
  const int writer = ::open(files.authority.c_str(), O_WRONLY | O_CLOEXEC);
  std::filesystem::rename(folder / "away", files.authority);
  ::close(writer);
  others.join();
  CHECK_FALSE(result.get());
  CHECK_FALSE(shaken.get_future().get().empty());
}

TEST_CASE_METHOD(CertificateFixture, "processes with certificates of two authorities agree while both are trusted",
                 "[transport]") {
  now = std::chrono::system_clock::now();
  REQUIRE(certs().init(10).has_value());
  for (const auto* name : {"alice", "bob", "carol"})
    REQUIRE(certs().issue({name, {}, {}}, folder / name).has_value());
  const auto server = TlsContext::load(*certs().check());
  const auto alice = TlsContext::load(*certs("alice").check());
  const auto bob = TlsContext::load(*certs("bob").check());
  const auto carol = TlsContext::load(*certs("carol").check());
  REQUIRE(server.has_value());
  REQUIRE(alice.has_value());
  REQUIRE(bob.has_value());
  REQUIRE(carol.has_value());
  const auto copy_to = [this](const std::string& name) {
    for (const auto* file : {"ca.pem", "revoked.pem"})
      std::filesystem::copy_file(folder / "certs" / file, folder / name / file,
                                 std::filesystem::copy_options::overwrite_existing);
  };

  // The new authority has a list, which is empty, and the old one has none.
  REQUIRE(certs().replace_authority(20).has_value());
  CHECK_FALSE(seen(*server, *alice).empty());
  REQUIRE(certs().issue({"alice", {}, {}}, folder / "alice").has_value());
  CHECK_FALSE(seen(*server, *alice).empty());
  CHECK(seen(*bob, *alice).empty()); // who has not been told of the new one
  copy_to("bob");
  CHECK_FALSE(seen(*bob, *alice).empty());
  CHECK_FALSE(seen(*alice, *bob).empty());

  // Both have lists.
  REQUIRE(certs().issue({"dave", {}, {}}, folder / "dave").has_value());
  const auto dave = TlsContext::load(*certs("dave").check());
  REQUIRE(dave.has_value());
  CHECK_FALSE(seen(*server, *dave).empty());
  REQUIRE(certs().revoke("carol").has_value());
  REQUIRE(certs().revoke("dave").has_value());
  CHECK(seen(*server, *carol).empty());
  CHECK(seen(*server, *dave).empty());
  CHECK_FALSE(seen(*server, *alice).empty());
  CHECK_FALSE(seen(*server, *bob).empty());

  // A list with nothing of the old one does not bring its revoked ones back.
  std::filesystem::copy_file(folder / "bob/revoked.pem", folder / "certs/revoked.pem",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK(seen(*server, *carol).empty());

  REQUIRE(certs().retire_authority(true).has_value());
  CHECK(seen(*server, *bob).empty());
}

TEST_CASE_METHOD(CertificateFixture, "an old copy of the list brings nobody back", "[transport]") {
  now = std::chrono::system_clock::now();
  REQUIRE(certs().init(10).has_value());
  for (const auto* name : {"alice", "bob"})
    REQUIRE(certs().issue({name, {}, {}}, folder / name).has_value());
  const auto server = TlsContext::load(*certs().check());
  const auto bob = TlsContext::load(*certs("bob").check());
  REQUIRE(server.has_value());
  REQUIRE(bob.has_value());
  REQUIRE(certs().revoke("alice").has_value());
  const auto older = text_of(folder / "certs/revoked.pem");
  REQUIRE(certs().revoke("bob").has_value());
  CHECK(seen(*server, *bob).empty());
  std::ofstream{folder / "certs/revoked.pem"} << older;
  CHECK(seen(*server, *bob).empty());
}

TEST_CASE_METHOD(CertificateFixture, "certificates between an authority and a peer are not accepted", "[transport]") {
  now = std::chrono::system_clock::now();
  using namespace detail;
  const CertificateLife life{now - Days{1}, now + Days{9}};
  // An authority as a company may have it, which lets others sign for it.
  const auto root_key = must(make_key());
  const auto root = must(make_authority(*root_key, life));
  X509_EXTENSION_free(X509_delete_ext(root.get(), X509_get_ext_by_NID(root.get(), NID_basic_constraints, -1)));
  const std::unique_ptr<BASIC_CONSTRAINTS, FreeBy<BASIC_CONSTRAINTS_free>> any{BASIC_CONSTRAINTS_new()};
  any->ca = 1;
  REQUIRE(X509_add1_ext_i2d(root.get(), NID_basic_constraints, any.get(), 1, X509V3_ADD_DEFAULT) == 1);
  REQUIRE(X509_sign(root.get(), root_key.get(), EVP_sha256()) > 0);
  const auto between_key = must(make_key());
  const auto between = must(make_authority(*between_key, life));
  REQUIRE(X509_set_issuer_name(between.get(), X509_get_subject_name(root.get())) == 1);
  REQUIRE(X509_sign(between.get(), root_key.get(), EVP_sha256()) > 0);
  const auto key = must(make_key());
  const auto direct = must(make_node({"direct", {"localhost"}, {}}, *key, *root, *root_key, life));
  const auto leaf = must(make_node({"leaf", {"localhost"}, {}}, *key, *between, *between_key, life));
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream{folder / name} << text;
    return folder / name;
  };
  const auto ca = write("ca.pem", must(to_pem(*root)));
  const auto key_file = write("node.key", must(to_pem(*key)));
  const auto of_direct = write("direct.pem", must(to_pem(*direct)));
  const auto of_leaf = write("leaf.pem", must(to_pem(*leaf)) + must(to_pem(*between)));
  const auto good = must(TlsContext::load({ca, of_direct, key_file, life.until}));
  const auto chained = must(TlsContext::load({ca, of_leaf, key_file, life.until}));
  CHECK_FALSE(seen(good, good).empty());
  CHECK(seen(good, chained).empty());
  CHECK(seen(chained, good).empty());
}

TEST_CASE_METHOD(CertificateFixture, "a list that OpenSSL cannot use lets nobody in", "[transport]") {
  now = std::chrono::system_clock::now();
  REQUIRE(certs().init(10).has_value());
  REQUIRE(certs().issue({"bob", {}, {}}, folder / "bob").has_value());
  REQUIRE(certs().issue({"alice", {}, {}}, folder / "alice").has_value());
  REQUIRE(certs().revoke("bob").has_value());
  // The same list, said to be for some reasons only.
  using namespace detail;
  const auto authority = must(load_authority(folder / "certs", now));
  const auto list = std::move(must(load_all_revocations(folder / "certs/revoked.pem")).front());
  const std::unique_ptr<ISSUING_DIST_POINT, FreeBy<ISSUING_DIST_POINT_free>> some{ISSUING_DIST_POINT_new()};
  some->onlysomereasons = ASN1_BIT_STRING_new();
  REQUIRE(ASN1_BIT_STRING_set_bit(some->onlysomereasons, 1, 1) == 1);
  REQUIRE(X509_CRL_add1_ext_i2d(list.get(), NID_issuing_distribution_point, some.get(), 1, X509V3_ADD_DEFAULT) == 1);
  REQUIRE(X509_CRL_sign(list.get(), authority.key.get(), EVP_sha256()) > 0);
  std::ofstream{folder / "certs/revoked.pem"} << must(to_pem(*list));
  const auto server = must(TlsContext::load(must(certs().check())));
  CHECK(seen(server, must(TlsContext::load(must(certs("bob").check())))).empty());
  CHECK(seen(server, must(TlsContext::load(must(certs("alice").check())))).empty());
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
