// An authority that takes the place of another one, step by step, while everything goes on.
#include "certificate_fixture.hpp"

#include <support/catch.hpp>
#include <support/results.hpp>

#include <algorithm>
#include <fstream>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;
using Copy = std::filesystem::copy_options;

namespace {

struct AuthorityFixture : CertificateFixture {
  AuthorityFixture() {
    must(certs().init(1'000));
    own = must(certs().list()).at(1).subject;
    first = must(certs().list()).at(0).subject;
    issue("gpu1");
  }

  CertificateFiles issue(const std::string& name) {
    return must(certs().issue({name, {}, {}}, folder / name));
  }

  /// As an operator who copies what the authority's folder has for everybody.
  void copy_to(const std::string& name) {
    for (const auto* file : {"ca.pem", "revoked.pem"})
      std::filesystem::copy_file(folder / "certs" / file, folder / name / file, Copy::overwrite_existing);
  }

  /// Makes an authority elsewhere, which this folder trusts as well. @returns its name.
  std::string trust(const std::string& name, std::int64_t days) {
    must(certs(name).init(days));
    std::ofstream{folder / "certs/ca.pem", std::ios::app} << text_of(folder / name / "ca.pem");
    return must(certs(name).list()).at(0).subject;
  }

  std::vector<std::string> authorities(const std::string& name = "certs") {
    std::vector<std::string> names;
    for (const auto& info : must(certs(name).list()))
      if (info.is_authority)
        names.push_back(info.subject);
    return names;
  }

  std::string issuer_of(const std::string& name) {
    return must(certs(name).list()).back().issuer;
  }

  [[nodiscard]] bool has(const std::string& file) const {
    return std::filesystem::exists(folder / file);
  }

  std::string own;
  std::string first;
};

} // namespace

TEST_CASE_METHOD(AuthorityFixture, "an authority is replaced while every folder can be used all the time",
                 "[certificates]") {
  const auto second = must(certs().replace_authority(2'000)).subject;
  CHECK(second != first);
  CHECK(authorities() == std::vector{second, first});
  CHECK(issuer_of("certs") == first);
  must(certs().check());
  must(certs("gpu1").check());
  copy_to("gpu1");
  must(certs("gpu1").check());

  // What is issued now is the new one's, and goes with both.
  issue("gpu2");
  CHECK(issuer_of("gpu2") == second);
  CHECK(authorities("gpu2") == std::vector{second, first});

  // The old one goes only when nobody needs it any more.
  const auto refusal = refusal_of(certs().retire_authority(false), Errc::invalid_argument);
  CHECK_THAT(refusal, Contains("2 have certificates of the old authority") && Contains("gpu1") && Contains(own));
  CHECK(authorities() == std::vector{second, first});
  issue("gpu1");
  must(certs().issue({own, {}, {}}, folder / "certs"));
  const auto retired = must(certs().retire_authority(false));
  REQUIRE(retired);
  CHECK(retired->subject == first);
  CHECK(authorities() == std::vector{second});
  CHECK_FALSE(has("certs/ca-old.key"));
  must(certs().check());
  for (const auto* name : {"gpu1", "gpu2"}) {
    must(certs(name).check());
    copy_to(name);
    must(certs(name).check());
    CHECK(authorities(name) == std::vector{second});
  }
  for (const auto& info : must(certs().issued()))
    CHECK(info.issuer == second);
}

TEST_CASE_METHOD(AuthorityFixture, "the two files that are copied fit together in either order", "[certificates]") {
  const auto copy = [this](const char* file) {
    std::filesystem::copy_file(folder / "certs" / file, folder / "gpu1" / file, Copy::overwrite_existing);
    must(certs("gpu1").check());
  };
  const auto in_one_order = GENERATE(true, false);
  const auto with_list = GENERATE(true, false);
  const auto copy_both = [&] {
    copy(in_one_order ? "ca.pem" : "revoked.pem");
    copy(in_one_order ? "revoked.pem" : "ca.pem");
  };
  if (with_list) {
    issue("gone");
    must(certs().revoke("gone"));
    copy_both();
  }
  must(certs().replace_authority(2'000));
  copy_both();
  issue("gpu1");
  must(certs().retire_authority(true));
  copy_both();
}

TEST_CASE_METHOD(AuthorityFixture, "certificates of both authorities can be revoked until the old one goes",
                 "[certificates]") {
  issue("gone");
  must(certs().revoke("gone"));
  must(certs().replace_authority(2'000));
  issue("gpu2");
  CHECK(must(certs().revoke("gpu1")).size() == 1);
  CHECK(must(certs().revoke("gpu2")).size() == 1);
  for (const auto* name : {"gone", "gpu1", "gpu2"}) {
    copy_to(name);
    CHECK_THAT(refusal_of(certs(name).check(), Errc::invalid_argument), Contains("was revoked"));
  }
  issue("gpu1");
  must(certs().retire_authority(true));
  CHECK_THAT(refusal_of(certs().check(), Errc::invalid_argument), Contains("was not issued by the authority"));
  copy_to("gpu2");
  CHECK_THAT(refusal_of(certs("gpu2").check(), Errc::invalid_argument), Contains("was revoked"));
  must(certs("gpu1").check());
}

TEST_CASE_METHOD(AuthorityFixture, "who needs no certificate any more does not keep the old authority",
                 "[certificates]") {
  issue("left");
  must(certs().revoke("left"));
  must(certs().issue({"over", {}, 1}, folder / "over"));
  must(certs().replace_authority(2'000));
  now += Days{2};
  CHECK_THAT(refusal_of(certs().retire_authority(false), Errc::invalid_argument),
             !Contains("left") && !Contains("over") && Contains("gpu1"));
}

TEST_CASE_METHOD(AuthorityFixture, "a replacement that was interrupted is completed by the next one",
                 "[certificates]") {
  std::filesystem::copy(folder / "certs", folder / "done", Copy::recursive);
  const auto second = must(certs("done").replace_authority(2'000)).subject;
  const auto put = [this](const char* from, const char* to) {
    std::filesystem::copy_file(folder / "done" / from, folder / "certs" / to, Copy::overwrite_existing);
  };
  const auto steps = GENERATE(1, 2, 3, 4);
  put("ca.key", "ca-next.key");
  if (steps > 1)
    put("ca.pem", "ca.pem");
  if (steps > 2)
    put("ca-old.key", "ca-old.key");
  if (steps > 3)
    put("ca.key", "ca.key");
  must(certs().check());
  issue("gpu2");
  issue("gone");
  CHECK(must(certs().revoke("gone")).size() == 1);
  CHECK_FALSE(certs().retire_authority(true));
  CHECK(must(certs().replace_authority(2'000)).subject == second);
  CHECK(authorities() == std::vector{second, first});
  CHECK(text_of(folder / "certs/ca.key") == text_of(folder / "done/ca.key"));
  CHECK(text_of(folder / "certs/ca-old.key") == text_of(folder / "done/ca-old.key"));
  CHECK_FALSE(has("certs/ca-next.key"));
  issue("gpu1");
  CHECK(issuer_of("gpu1") == second);
  must(certs().revoke("gpu2"));
}

TEST_CASE_METHOD(AuthorityFixture, "a retirement that was interrupted is completed by the next one", "[certificates]") {
  const auto second = must(certs().replace_authority(2'000)).subject;
  const auto old_key = text_of(folder / "certs/ca-old.key");
  must(certs().retire_authority(true));
  std::ofstream{folder / "certs/ca-old.key"} << old_key;
  std::filesystem::permissions(folder / "certs/ca-old.key", std::filesystem::perms::owner_read);
  CHECK_FALSE(must(certs().retire_authority(true)));
  CHECK_FALSE(has("certs/ca-old.key"));
  CHECK(authorities() == std::vector{second});
}

TEST_CASE_METHOD(AuthorityFixture, "what cannot be replaced or retired is refused, and nothing is changed",
                 "[certificates]") {
  const auto before = text_of(folder / "certs/ca.pem");
  CHECK_THAT(refusal_of(certs().retire_authority(false), Errc::not_found), Contains("no authority is being replaced"));
  CHECK_THAT(refusal_of(certs().replace_authority(999), Errc::invalid_argument), Contains("a longer life is expected"));
  CHECK(refusal_of(certs().replace_authority(0), Errc::invalid_argument) != "");
  CHECK_THAT(refusal_of(certs("gpu1").replace_authority(2'000), Errc::not_found), Contains("ca.key is missing"));
  CHECK_THAT(refusal_of(certs("gpu1").retire_authority(true), Errc::not_found), Contains("ca.key is missing"));
  CHECK(refusal_of(certs("none").replace_authority(2'000), Errc::not_found) != "");
  CHECK_FALSE(has("none"));
  CHECK(text_of(folder / "certs/ca.pem") == before);
  CHECK_FALSE(has("certs/ca-next.key"));
  must(certs().replace_authority(2'000));
  CHECK_THAT(refusal_of(certs().replace_authority(3'000), Errc::already_exists), Contains("gpuactors certs retire"));
}

TEST_CASE_METHOD(AuthorityFixture, "an authority that has expired can be replaced", "[certificates]") {
  now += Days{1'001};
  CHECK_THAT(refusal_of(certs().check(), Errc::invalid_argument), Contains("expired") && Contains("certs replace"));
  const auto second = must(certs().replace_authority(2'000)).subject;
  must(certs().issue({own, {}, {}}, folder / "certs"));
  must(certs().check());
  CHECK(must(certs().retire_authority(false)).value().subject == first);
  CHECK(authorities() == std::vector{second});
}

TEST_CASE_METHOD(AuthorityFixture, "keys of both authorities are private", "[certificates]") {
  must(certs().replace_authority(2'000));
  CHECK(mode_of(folder / "certs/ca.key") == 0600);
  CHECK(mode_of(folder / "certs/ca-old.key") == 0600);
  CHECK(mode_of(folder / "certs/ca.pem") == 0644);
  CHECK(mode_of(folder / "certs/revoked.pem") == 0644);
}

TEST_CASE_METHOD(AuthorityFixture, "a file of authorities is read whole or refused", "[certificates]") {
  const auto one = text_of(folder / "certs/ca.pem");
  const auto write = [this](const std::string& text) { std::ofstream{folder / "gpu1/ca.pem"} << text; };
  must(certs("other").init(10));
  write(text_of(folder / "other/ca.pem") + one);
  must(certs("gpu1").check());
  CHECK(authorities("gpu1").back() == first);
  write(one + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  CHECK_THAT(refusal_of(certs("gpu1").check(), Errc::invalid_argument), Contains("ca.pem is no certificate in PEM"));
  write(one.substr(0, one.size() / 2));
  CHECK_THAT(refusal_of(certs("gpu1").check(), Errc::invalid_argument), Contains("ca.pem is no certificate in PEM"));
  std::string many;
  for (int i = 0; i < 9; ++i)
    many += one;
  write(many);
  CHECK_THAT(refusal_of(certs("gpu1").check(), Errc::invalid_argument), Contains("more than 8"));
}

TEST_CASE_METHOD(AuthorityFixture, "authorities that are trusted beside the own one stay", "[certificates]") {
  const auto company = trust("company", 5'000);
  CHECK_FALSE(certs().retire_authority(true));
  const auto second = must(certs().replace_authority(2'000)).subject;
  CHECK(authorities() == std::vector{second, first, company});
  must(certs().retire_authority(true));
  CHECK(authorities() == std::vector{second, company});
}

TEST_CASE_METHOD(AuthorityFixture, "no authority is made that nobody could read", "[certificates]") {
  for (int i = 0; i < 7; ++i)
    trust("other" + std::to_string(i), 10);
  CHECK_THAT(refusal_of(certs().replace_authority(2'000), Errc::invalid_argument), Contains("8 authorities already"));
  CHECK_FALSE(has("certs/ca-next.key"));
  must(certs().check());
}

TEST_CASE_METHOD(AuthorityFixture, "keys of authorities that others may read are refused, all of them",
                 "[certificates]") {
  must(certs().replace_authority(2'000));
  using std::filesystem::perms;
  std::filesystem::permissions(folder / "certs/ca-old.key", perms::owner_read | perms::others_read);
  CHECK_THAT(refusal_of(certs().check(), Errc::invalid_argument), Contains("ca-old.key"));
}

TEST_CASE_METHOD(AuthorityFixture, "a certificate that ends with the authority that signs is not renewed for ever",
                 "[certificates]") {
  trust("company", 5'000);
  now += Days{999};
  must(certs().ensure());
  const auto count = must(certs().issued()).size();
  must(certs().ensure());
  CHECK(must(certs().issued()).size() == count);
}

TEST_CASE_METHOD(AuthorityFixture, "the newest of several lists of an authority counts", "[certificates]") {
  issue("a");
  issue("b");
  must(certs().revoke("a"));
  const auto older = text_of(folder / "certs/revoked.pem");
  must(certs().revoke("b"));
  const auto newer = text_of(folder / "certs/revoked.pem");
  const auto in_one_order = GENERATE(true, false);
  std::ofstream{folder / "b/revoked.pem"} << (in_one_order ? older + newer : newer + older);
  CHECK_THAT(refusal_of(certs("b").check(), Errc::invalid_argument), Contains("was revoked"));
}

TEST_CASE_METHOD(AuthorityFixture, "the list of a retired authority stays, also when others are revoked after it",
                 "[certificates]") {
  issue("gone");
  must(certs().revoke("gone"));
  must(certs().replace_authority(2'000));
  issue("gpu2");
  must(certs().issue({own, {}, {}}, folder / "certs"));
  must(certs().retire_authority(true));
  must(certs().revoke("gpu2"));
  // A machine to which only this file was copied.
  std::filesystem::copy_file(folder / "certs/revoked.pem", folder / "gone/revoked.pem", Copy::overwrite_existing);
  CHECK_THAT(refusal_of(certs("gone").check(), Errc::invalid_argument), Contains("was revoked"));
}

TEST_CASE_METHOD(AuthorityFixture, "a key that was revoked is not kept, whoever issues the next certificate",
                 "[certificates]") {
  const auto leaked = text_of(folder / "gpu1/node.key");
  must(certs().revoke("gpu1"));
  must(certs().replace_authority(2'000));
  must(certs().retire_authority(true));
  issue("gpu1");
  CHECK(text_of(folder / "gpu1/node.key") != leaked);
}

TEST_CASE_METHOD(AuthorityFixture, "a retirement that was interrupted goes on, whoever was revoked before",
                 "[certificates]") {
  issue("gone");
  must(certs().revoke("gone"));
  must(certs().replace_authority(2'000));
  issue("gpu1");
  must(certs().issue({own, {}, {}}, folder / "certs"));
  std::filesystem::copy(folder / "certs", folder / "before", Copy::recursive);
  must(certs().retire_authority(false));
  // As after the first step of it.
  for (const auto* what : {"ca-old.key", "issued"}) {
    std::filesystem::remove_all(folder / "certs" / what);
    std::filesystem::copy(folder / "before" / what, folder / "certs" / what, Copy::recursive);
  }
  CHECK_FALSE(must(certs().retire_authority(false)));
  for (const auto& info : must(certs().issued()))
    CHECK(info.issuer == authorities().front());
  CHECK_FALSE(has("certs/ca-old.key"));
}

TEST_CASE_METHOD(AuthorityFixture, "a folder that was put back from an old copy makes newer lists all the same",
                 "[certificates]") {
  issue("a");
  issue("b");
  must(certs().revoke("a"));
  std::filesystem::copy_file(folder / "certs/revoked.pem", folder / "backup");
  must(certs().revoke("b"));
  must(certs().revoke("gpu1"));
  const auto newest = text_of(folder / "certs/revoked.pem");
  std::filesystem::copy_file(folder / "backup", folder / "certs/revoked.pem", Copy::overwrite_existing);
  now += std::chrono::seconds{10};
  must(certs().revoke("gpu1"));
  // In one file, the one that was made last counts, which lacks what the copy did not have.
  std::ofstream{folder / "b/revoked.pem"} << newest << text_of(folder / "certs/revoked.pem");
  must(certs("b").check());
}

TEST_CASE_METHOD(AuthorityFixture, "lists of those who are not trusted are left out beside others", "[certificates]") {
  must(certs("other").init(10));
  must(certs("other").revoke(must(certs("other").list()).at(1).subject));
  issue("gone");
  must(certs().revoke("gone"));
  std::ofstream{folder / "gpu1/revoked.pem"} << text_of(folder / "other/revoked.pem")
                                             << text_of(folder / "certs/revoked.pem");
  must(certs("gpu1").check());
  std::filesystem::copy_file(folder / "gpu1/revoked.pem", folder / "gone/revoked.pem");
  CHECK_THAT(refusal_of(certs("gone").check(), Errc::invalid_argument), Contains("was revoked"));
}
