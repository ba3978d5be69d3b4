// Certificates that permit less, or nothing any more: clients' certificates, and those that were revoked.
#include "certificate_fixture.hpp"

#include <support/catch.hpp>
#include <support/results.hpp>

#include <algorithm>
#include <fstream>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;

namespace {

struct RightsFixture : CertificateFixture {
  RightsFixture() {
    must(certs().init(1'000));
  }

  CertificateFiles issue(const std::string& name, CertificateRole role = CertificateRole::node) {
    return must(certs().issue({name, {}, {}, role}, folder / name));
  }

  CertificateInfo info_in(const std::string& name) {
    return must(certs(name).list()).at(1);
  }

  /// The owners of certificates that were issued and are not revoked, each once for each of them.
  std::vector<std::string> trusted() {
    std::vector<std::string> names;
    for (const auto& info : must(certs().issued()))
      if (!info.revoked)
        names.push_back(info.subject);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::size_t trusted_of(const std::string& name) {
    const auto names = trusted();
    return static_cast<std::size_t>(std::count(names.begin(), names.end(), name));
  }

  std::string own_name() {
    return info_in("certs").subject;
  }
};

} // namespace

// -- roles ----------------------------------------------------------------------------------------

TEST_CASE_METHOD(RightsFixture, "a client's certificate is good for a client, and for no server", "[certificates]") {
  now = std::chrono::system_clock::now(); // what a handshake looks at
  must(certs("today").init(10));
  const auto node = must(certs("today").issue({"gpu1", {}, {}}, folder / "gpu1"));
  const auto client = must(certs("today").issue({"alice", {}, {}, CertificateRole::client}, folder / "alice"));
  CHECK(node.role == CertificateRole::node);
  CHECK(client.role == CertificateRole::client);
  CHECK(must(certs("alice").check()).role == CertificateRole::client);
  CHECK(info_in("alice").role == CertificateRole::client);
  CHECK(info_in("gpu1").role == CertificateRole::node);
  CHECK(must(certs().list()).front().is_authority);
  CHECK_FALSE(info_in("alice").is_authority);
  CHECK(handshake(side_of(node), side_of(client), "gpu1").empty());
  CHECK_THAT(handshake(side_of(client), side_of(node), "alice"), Contains("certificate verify failed"));
}

TEST_CASE_METHOD(RightsFixture, "a certificate keeps its role when it is renewed", "[certificates]") {
  must(certs().issue({"alice", {}, {}, CertificateRole::client}, folder / "certs"));
  const auto before = info_in("certs").serial;
  now += Days{360};
  CHECK(must(certs().ensure()).role == CertificateRole::client);
  CHECK(info_in("certs").serial != before);
}

// -- revocation -----------------------------------------------------------------------------------

TEST_CASE_METHOD(RightsFixture, "what was issued is listed, the renewed and this machine's own included",
                 "[certificates]") {
  issue("gpu1");
  now += Days{1};
  issue("gpu1");
  CHECK(trusted() == [&] {
    std::vector<std::string> names{"gpu1", "gpu1", own_name()};
    std::sort(names.begin(), names.end());
    return names;
  }());
}

TEST_CASE_METHOD(RightsFixture, "all certificates of a name are revoked at once", "[certificates]") {
  issue("gpu1");
  issue("gpu1");
  issue("gpu2");
  const auto revoked = must(certs().revoke("gpu1"));
  CHECK(revoked.size() == 2);
  CHECK(revoked.front().revoked == now);
  CHECK(trusted_of("gpu1") == 0);
  CHECK(trusted_of("gpu2") == 1);
  CHECK_THAT(refusal_of(certs().revoke("gpu1"), Errc::already_exists), Contains("gpu1 is revoked already"));
}

TEST_CASE_METHOD(RightsFixture, "one certificate is revoked by its serial number, or by a file with it",
                 "[certificates]") {
  issue("gpu1");
  const auto first = info_in("gpu1").serial;
  issue("gpu1");
  CHECK(must(certs().revoke(first)).size() == 1);
  CHECK(trusted_of("gpu1") == 1);
  CHECK(must(certs().revoke((folder / "gpu1/node.pem").string())).front().serial == info_in("gpu1").serial);
  CHECK(trusted_of("gpu1") == 0);
}

TEST_CASE_METHOD(RightsFixture, "only what the authority has issued can be revoked, and only where it was made",
                 "[certificates]") {
  issue("gpu1");
  CHECK_THAT(refusal_of(certs().revoke("gpu2"), Errc::not_found), Contains("gpuactors certs issued"));
  must(certs("other").init(10));
  CHECK_THAT(refusal_of(certs().revoke((folder / "other/node.pem").string()), Errc::not_found),
             Contains("of another authority"));
  CHECK_THAT(refusal_of(certs("gpu1").revoke("gpu1"), Errc::not_found), Contains("ca.key is missing"));
}

TEST_CASE_METHOD(RightsFixture, "a process does not start with a certificate that was revoked", "[certificates]") {
  issue("gpu1");
  must(certs().revoke("gpu1"));
  CHECK(certs("gpu1").check().has_value()); // nobody has told it
  std::filesystem::copy_file(folder / "certs/revoked.pem", folder / "gpu1/revoked.pem");
  CHECK_THAT(refusal_of(certs("gpu1").check(), Errc::invalid_argument),
             Contains("was revoked on 2030-01-01 00:00 UTC"));
}

TEST_CASE_METHOD(RightsFixture, "who gets a certificate after a revocation gets a new key and the list",
                 "[certificates]") {
  const auto files = issue("gpu1");
  const auto key = text_of(files.key);
  must(certs().revoke("gpu1"));
  const auto again = issue("gpu1");
  CHECK(text_of(again.key) != key);
  CHECK(text_of(again.revoked) == text_of(folder / "certs/revoked.pem"));
  CHECK(must(certs("gpu1").check()).certificate == again.certificate);
  // Another issue keeps that key: it is not the one that was revoked.
  const auto kept = text_of(again.key);
  CHECK(text_of(issue("gpu1").key) == kept);
}

TEST_CASE_METHOD(RightsFixture, "a list of another authority, or none at all, is refused with its name",
                 "[certificates]") {
  issue("gpu1");
  must(certs("other").init(10));
  must(certs("other").revoke(must(certs("other").list()).at(1).subject));
  std::filesystem::copy_file(folder / "other/revoked.pem", folder / "gpu1/revoked.pem");
  CHECK_THAT(refusal_of(certs("gpu1").check(), Errc::invalid_argument),
             Contains("gpu1/revoked.pem is not of the authority"));
  std::ofstream{folder / "gpu1/revoked.pem"} << "nothing\n";
  CHECK_THAT(refusal_of(certs("gpu1").check(), Errc::invalid_argument),
             Contains("gpu1/revoked.pem is no list of revoked certificates"));
}

TEST_CASE_METHOD(RightsFixture, "each list has all that was revoked before it", "[certificates]") {
  for (const auto* name : {"a", "b", "c"}) {
    issue(name);
    must(certs().revoke(name));
    now += Days{1};
  }
  CHECK(trusted() == std::vector{own_name()});
}
