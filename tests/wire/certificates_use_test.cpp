// Certificates at work: made on first use by many at once, renewed, and in a handshake.
#include "certificate_fixture.hpp"

#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>

#include <sys/wait.h>

#include <barrier>
#include <optional>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

CertificateFiles good(const Result<CertificateFiles>& result) {
  INFO((result.has_value() ? "" : to_string(result.error())));
  REQUIRE(result.has_value());
  return *result;
}

CertificateInfo node_in(const CertificateFolder& folder) {
  const auto list = folder.list();
  REQUIRE(list.has_value());
  REQUIRE(list->size() == 2);
  return (*list)[1];
}

} // namespace

// -- ensure ---------------------------------------------------------------------------------------

TEST_CASE_METHOD(CertificateFixture, "certificates are made on first use and used again after", "[certificates]") {
  const auto files = good(certs().ensure());
  const auto first = node_in(certs());
  CHECK(files.valid_until == now + Days{limits::certificate_days});
  now += Days{100};
  CHECK(good(certs().ensure()).valid_until == files.valid_until);
  CHECK(node_in(certs()).fingerprint == first.fingerprint);
}

TEST_CASE_METHOD(CertificateFixture, "a certificate near its end is renewed for the same name, hosts and key",
                 "[certificates]") {
  good(certs().init(3'650));
  good(certs().issue({"mine", {"gpu1", "10.0.0.1"}, {}}, folder / "certs"));
  const auto key = text_of(folder / "certs/node.key");
  now += Days{365} - limits::certificate_renewal - std::chrono::seconds{1};
  CHECK(good(certs().ensure()).valid_until < now + Days{31});
  now += std::chrono::seconds{1};
  CHECK(good(certs().ensure()).valid_until == now + Days{365});
  const auto renewed = node_in(certs());
  CHECK(renewed.subject == "mine");
  CHECK(renewed.hosts == std::vector<std::string>{"gpu1", "10.0.0.1"});
  CHECK(text_of(folder / "certs/node.key") == key);
  now += Days{500}; // long expired
  CHECK(good(certs().ensure()).valid_until == now + Days{365});
}

TEST_CASE_METHOD(CertificateFixture, "a short life is renewed in its last third only", "[certificates]") {
  good(certs().init(3'650));
  good(certs().issue({"mine", {}, 3}, folder / "certs"));
  now += Days{1};
  CHECK(good(certs().ensure()).valid_until == now + Days{2});
  now += Days{1};
  CHECK(good(certs().ensure()).valid_until == now + Days{365});
}

TEST_CASE_METHOD(CertificateFixture, "without the authority's key nothing is made or renewed", "[certificates]") {
  good(certs().init(3'650));
  good(certs().issue({"a", {}, 30}, folder / "a"));
  now += Days{29};
  const auto before = node_in(certs("a")).fingerprint;
  good(certs("a").ensure());
  CHECK(node_in(certs("a")).fingerprint == before);
  CHECK_FALSE(std::filesystem::exists(folder / "a/ca.key"));
  now += Days{1};
  CHECK(certs("a").ensure().error().message().find("expired on 2030-01-31") != std::string::npos);
}

TEST_CASE_METHOD(CertificateFixture, "a certificate that ends with its authority is not renewed again and again",
                 "[certificates]") {
  good(certs().init(100));
  now += Days{99};
  const auto before = node_in(certs()).fingerprint;
  good(certs().ensure());
  CHECK(node_in(certs()).fingerprint == before);
}

TEST_CASE_METHOD(CertificateFixture, "a valid certificate that cannot be renewed still does", "[certificates]") {
  good(certs().init(3'650));
  std::filesystem::remove(folder / "certs/.lock");
  std::filesystem::create_directory(folder / "certs/.lock"); // cannot be opened for writing, not even by root
  now += Days{364};
  CHECK(good(certs().ensure()).valid_until == now + Days{1});
  now += Days{1};
  CHECK(certs().ensure().error().message().find(".lock cannot be opened") != std::string::npos);
}

TEST_CASE_METHOD(CertificateFixture, "threads that start at once agree on one authority", "[certificates]") {
  constexpr std::size_t count = 8;
  now = std::chrono::system_clock::now(); // what a handshake looks at
  std::barrier start{static_cast<std::ptrdiff_t>(count)};
  std::vector<std::optional<Result<CertificateFiles>>> results(count);
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (auto& result : results)
    threads.emplace_back([this, &start, &result] {
      start.arrive_and_wait();
      result = certs().ensure();
    });
  for (auto& thread : threads)
    thread.join();
  for (const auto& result : results)
    good(*result);
  const auto end = good(certs().check());
  CHECK(handshake(side_of(end), side_of(end)).empty());
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator{folder / "certs"})
    files += entry.path().filename() == ".lock" ? 0U : 1U;
  CHECK(files == 5); // nothing temporary is left
}

TEST_CASE_METHOD(CertificateFixture, "processes that start at once agree on one authority", "[certificates]") {
  constexpr int count = 4;
  int gate[2] = {-1, -1};
  REQUIRE(::pipe(gate) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const auto child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) { // waits until the gate is closed by its parent, then tells by its exit code
      ::close(gate[1]);
      char byte = 0;
      (void)!::read(gate[0], &byte, 1);
      const auto made = certs().ensure();
      const auto mine = made ? text_of(made->authority) : std::string{};
      ::_exit(made && !mine.empty() && certs().check() && text_of(folder / "certs/ca.pem") == mine ? 0 : 1);
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  for (const auto child : children) {
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  good(certs().check());
}

// -- handshakes: OpenSSL looks at the real clock, so these certificates are of today --------------------

TEST_CASE_METHOD(CertificateFixture, "two nodes of one authority agree, whichever of them connects", "[certificates]") {
  now = std::chrono::system_clock::now();
  const auto broker = side_of(good(certs().init(10)));
  const auto node = side_of(good(certs().issue({"node-1", {"gpu1", "10.0.0.1"}, {}}, folder / "node-1")));
  CHECK(handshake(broker, node, "localhost") == "");
  CHECK(handshake(node, broker, "gpu1") == "");
  CHECK(handshake(broker, broker, "localhost") == "");
}

TEST_CASE_METHOD(CertificateFixture, "a handshake fails for a host that the certificate is not for", "[certificates]") {
  now = std::chrono::system_clock::now();
  const auto broker = side_of(good(certs().init(10)));
  CHECK(handshake(broker, broker, "elsewhere").find("certificate verify failed") != std::string::npos);
}

TEST_CASE_METHOD(CertificateFixture, "a handshake with a node of another authority fails on either side",
                 "[certificates]") {
  now = std::chrono::system_clock::now();
  const auto ours = side_of(good(certs().init(10)));
  const auto theirs = side_of(good(certs("other").init(10)));
  CHECK(handshake(ours, theirs).find("certificate verify failed") != std::string::npos);
  CHECK(handshake(theirs, ours).find("certificate verify failed") != std::string::npos);
  // One that trusts us, and shows a certificate that we do not trust.
  CHECK(handshake(ours, {ours.authority, theirs.certificate, theirs.key}).find("certificate verify failed")
        != std::string::npos);
}

TEST_CASE_METHOD(CertificateFixture, "a handshake with a client that shows no certificate fails", "[certificates]") {
  now = std::chrono::system_clock::now();
  const auto ours = side_of(good(certs().init(10)));
  CHECK(handshake(ours, {ours.authority, {}, {}}).find("peer did not return a certificate") != std::string::npos);
}

TEST_CASE_METHOD(CertificateFixture, "a handshake with a certificate that has expired fails", "[certificates]") {
  now = std::chrono::system_clock::now() - Days{5};
  good(certs().init(10));
  const auto expired = side_of(good(certs().issue({"expired", {"localhost"}, 2}, folder / "expired")));
  now += Days{5};
  const auto valid = side_of(good(certs().ensure()));
  CHECK(handshake(valid, valid) == "");
  CHECK(handshake(expired, valid).find("certificate verify failed") != std::string::npos);
  CHECK(handshake(valid, expired).find("certificate verify failed") != std::string::npos);
}
