#include "certificate_fixture.hpp"

#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/detail/private_files.hpp>

#include <support/catch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::StartsWith;
using std::filesystem::path;

namespace {

template <class T>
std::string why_not(const Result<T>& result, Errc code = Errc::invalid_argument) {
  REQUIRE_FALSE(result.has_value());
  CHECK(to_string(result.error().code()) == to_string(code));
  CHECK(result.error().message().find('\n') == std::string::npos);
  return result.error().message();
}

template <class T>
const T& good(const Result<T>& result) {
  INFO((result.has_value() ? "" : to_string(result.error())));
  REQUIRE(result.has_value());
  return result.value();
}

/// Which of the parts a text lacks, with the text; empty when it has them all.
std::string lacks(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    if (text.find(part) == std::string::npos)
      return fmt::format("\"{}\" is not in: {}", part, text);
  return {};
}

/// Replaces a file by that of another folder, with the right mode.
void take(const path& from, const path& to) {
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
}

/// Tests of what a user may not read mean nothing to root.
bool is_root() {
  return ::geteuid() == 0;
}

} // namespace

// -- making ---------------------------------------------------------------------------------------

TEST_CASE_METHOD(CertificateFixture, "an authority comes with a certificate for this machine", "[certificates]") {
  const auto files = good(certs().init(3'650));
  CHECK(files.authority == folder / "certs/ca.pem");
  CHECK(files.certificate == folder / "certs/node.pem");
  CHECK(files.key == folder / "certs/node.key");
  CHECK(files.valid_until == now + Days{365});
  const auto list = good(certs().list());
  REQUIRE(list.size() == 2);
  CHECK_THAT(list[0].subject, StartsWith("gpuactors authority "));
  CHECK(list[0].issuer == list[0].subject);
  CHECK(list[0].hosts.empty());
  CHECK(list[0].valid_until == now + Days{3'650});
  CHECK(list[1].issuer == list[0].subject);
  CHECK(std::count(list[1].hosts.begin(), list[1].hosts.end(), "localhost") == 1);
  CHECK(std::count(list[1].hosts.begin(), list[1].hosts.end(), "127.0.0.1") == 1);
  CHECK(std::count(list[1].hosts.begin(), list[1].hosts.end(), "::1") == 1);
  CHECK(list[1].fingerprint.size() == 32 * 3 - 1);
  CHECK(list[1].fingerprint != list[0].fingerprint);
}

TEST_CASE_METHOD(CertificateFixture, "folder and keys are private from the start, certificates are not",
                 "[certificates]") {
  const auto mask = ::umask(0);
  const auto made = certs("deep/certs").init(10);
  ::umask(mask);
  good(made);
  CHECK(mode_of(folder / "deep/certs") == 0700);
  CHECK(mode_of(folder / "deep/certs/ca.key") == 0600);
  CHECK(mode_of(folder / "deep/certs/node.key") == 0600);
  CHECK(mode_of(folder / "deep/certs/ca.pem") == 0644);
  CHECK(mode_of(folder / "deep/certs/node.pem") == 0644);
}

TEST_CASE_METHOD(CertificateFixture, "an authority is never made over another", "[certificates]") {
  good(certs().init(10));
  const auto before = text_of(folder / "certs/ca.pem");
  CHECK(lacks(why_not(certs().init(10), Errc::already_exists), {"certs has an authority: issue"}) == "");
  CHECK(text_of(folder / "certs/ca.pem") == before);
  good(certs().issue({"a", {}, {}}, folder / "a"));
  CHECK(lacks(why_not(certs("a").init(10), Errc::already_exists), {"a/ca.pem is there, of an authority"}) == "");
}

TEST_CASE_METHOD(CertificateFixture, "an authority of which only the key was written is completed", "[certificates]") {
  now = std::chrono::system_clock::now(); // what a handshake looks at
  good(certs().init(10));
  good(certs().issue({"node-1", {}, {}}, folder / "node-1"));
  const auto key = text_of(folder / "certs/ca.key");
  for (const auto* name : {"ca.pem", "node.pem", "node.key"})
    std::filesystem::remove(folder / "certs" / name);
  const auto files = good(certs().ensure());
  CHECK(text_of(folder / "certs/ca.key") == key);
  CHECK(handshake(side_of(files), side_of(good(certs("node-1").check()))).empty());
}

TEST_CASE_METHOD(CertificateFixture, "lives that make no sense are refused with the range", "[certificates]") {
  for (const std::int64_t days : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{36'501}})
    CHECK(lacks(why_not(certs().init(days)), {"1 to 36500 are expected"}) == "");
  CHECK_FALSE(std::filesystem::exists(folder / "certs"));
  good(certs().init(100));
  CHECK(lacks(why_not(certs().issue({"a", {}, 0}, folder / "a")), {"0 days"}) == "");
  CHECK(lacks(why_not(certs().issue({"a", {}, 101}, folder / "a")),
              {"which ends on 2030-04-11 00:00 UTC: ask for at most 100 days"})
        == "");
  CHECK(good(certs().issue({"a", {}, 100}, folder / "a")).valid_until == now + Days{100});
  CHECK(good(certs().issue({"b", {}, {}}, folder / "b")).valid_until == now + Days{100});
}

// -- issuing --------------------------------------------------------------------------------------

TEST_CASE_METHOD(CertificateFixture, "a certificate is for the hosts that were asked for", "[certificates]") {
  good(certs().init(10));
  good(certs().issue({"node-1", {"gpu1.example.org", "10.0.0.1", "fd00::1"}, 5}, folder / "out/node-1"));
  const auto list = good(certs("out/node-1").list());
  REQUIRE(list.size() == 2);
  CHECK(list[1].subject == "node-1");
  CHECK(list[1].hosts == std::vector<std::string>{"gpu1.example.org", "10.0.0.1", "fd00::1"});
  CHECK(list[1].valid_from < now);
  CHECK(list[1].valid_until == now + Days{5});
  CHECK(text_of(folder / "out/node-1/ca.pem") == text_of(folder / "certs/ca.pem"));
  CHECK_FALSE(std::filesystem::exists(folder / "out/node-1/ca.key"));
  CHECK(mode_of(folder / "out/node-1") == 0700);
  good(certs().issue({"node-2.example.org", {}, {}}, folder / "out/node-2"));
  CHECK(good(certs("out/node-2").list())[1].hosts == std::vector<std::string>{"node-2.example.org"});
}

TEST_CASE_METHOD(CertificateFixture, "names and hosts that cannot be are refused", "[certificates]") {
  good(certs().init(10));
  for (const auto* name : {"", "-a", "a b", "../a", "a,DNS:b", "a..b"})
    CHECK(lacks(why_not(certs().issue({name, {}, {}}, folder / "a")), {"cannot be the name"}) == "");
  CHECK(lacks(why_not(certs().issue({std::string(65, 'a'), {}, {}}, folder / "a")), {"1 to 64"}) == "");
  for (const auto* host : {"", "host:4711", "[::1]", "*.example.org", "http://a", "10.0.0.300", "a,IP:1.2.3.4", "a\nb"})
    CHECK(certs().issue({"a", {host}, {}}, folder / "a").error().code() == Errc::invalid_argument);
  CHECK(lacks(why_not(certs().issue({"a", {"host:4711"}, {}}, folder / "a")), {"without port and brackets"}) == "");
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
}

TEST_CASE_METHOD(CertificateFixture, "issuing again keeps the key, so that a pair always fits", "[certificates]") {
  good(certs().init(10));
  good(certs().issue({"a", {"one"}, {}}, folder / "a"));
  const auto key = text_of(folder / "a/node.key");
  const auto before = good(certs("a").list())[1];
  good(certs().issue({"a", {"two"}, {}}, folder / "a"));
  CHECK(text_of(folder / "a/node.key") == key);
  CHECK(good(certs("a").list())[1].hosts == std::vector<std::string>{"two"});
  CHECK(good(certs("a").list())[1].fingerprint != before.fingerprint);
}

TEST_CASE_METHOD(CertificateFixture, "only the authority's own folder can issue", "[certificates]") {
  CHECK(lacks(why_not(certs().issue({"a", {}, {}}, folder / "a"), Errc::not_found),
              {"ca.key is missing", "gpuactors certs init --certs"})
        == "");
  good(certs().init(10));
  good(certs("other").init(10));
  good(certs().issue({"a", {}, {}}, folder / "a"));
  why_not(certs("a").issue({"b", {}, {}}, folder / "b"), Errc::not_found);
  CHECK(lacks(why_not(certs().issue({"b", {}, {}}, folder / "other")), {"the folder of another authority"}) == "");
  take(folder / "other/ca.key", folder / "certs/ca.key");
  CHECK(lacks(why_not(certs().issue({"b", {}, {}}, folder / "b")), {"ca.key is not the key of"}) == "");
}

// -- checking -------------------------------------------------------------------------------------

TEST_CASE_METHOD(CertificateFixture, "a missing file is named with what to do", "[certificates]") {
  CHECK(lacks(why_not(certs().check(), Errc::not_found),
              {"certs has no certificates: name the folder that has them (--certs)", "gpuactors certs init --certs"})
        == "");
  good(certs().init(10));
  good(certs().issue({"a", {}, {}}, folder / "a"));
  for (const auto* name : {"ca.pem", "node.pem", "node.key"}) {
    std::filesystem::rename(folder / "a" / name, folder / "aside");
    CHECK(lacks(why_not(certs("a").check(), Errc::not_found), {fmt::format("a/{} is missing: ", name)}) == "");
    CHECK(lacks(why_not(certs("a").ensure(), Errc::not_found), {fmt::format("a/{} is missing: ", name)}) == "");
    std::filesystem::rename(folder / "aside", folder / "a" / name);
  }
  good(certs("a").check());
}

TEST_CASE_METHOD(CertificateFixture, "a key that others may read is refused with its mode", "[certificates]") {
  good(certs().init(10));
  for (const auto* name : {"ca.key", "node.key"}) {
    ::chmod((folder / "certs" / name).c_str(), 0640);
    CHECK(lacks(why_not(certs().check()), {name, "(mode 0640): chmod 600"}) == "");
    CHECK(lacks(why_not(certs().ensure()), {"(mode 0640)"}) == "");
    ::chmod((folder / "certs" / name).c_str(), 0600);
  }
  ::chmod((folder / "certs/ca.pem").c_str(), 0646);
  CHECK(lacks(why_not(certs().check()), {"ca.pem may be changed by any user (mode 0646): chmod 644"}) == "");
}

TEST_CASE_METHOD(CertificateFixture, "a folder that others may write to gets no keys", "[certificates]") {
  const auto why = [&](mode_t mode) {
    ::chmod((folder / "certs").c_str(), mode);
    return why_not(certs().init(10));
  };
  std::filesystem::create_directory(folder / "certs");
  CHECK(lacks(why(01777), {"certs may be changed by any user (mode 1777)", "chmod 700"}) == "");
  if (!is_root())
    return; // only root gives folders away
  REQUIRE(::chown((folder / "certs").c_str(), 1234, 1234) == 0);
  CHECK(lacks(why(0700), {"certs belongs to user 1234, and this process runs as user 0", "chown 0"}) == "");
  REQUIRE(::chown((folder / "certs").c_str(), 0, 1234) == 0);
  CHECK(lacks(why(0770), {"certs may be changed by group 1234 (mode 0770)", "chmod g-w"}) == "");
  // A group that may only read is none of those.
  ::chmod((folder / "certs").c_str(), 0750);
  good(certs().init(10));
}

TEST_CASE_METHOD(CertificateFixture, "certificates are issued neither from nor to a folder that any user may change",
                 "[certificates]") {
  good(certs().init(10));
  const auto issue = [&] { return why_not(certs().issue({"a", {}, {}}, folder / "a")); };
  ::chmod((folder / "certs").c_str(), 0777);
  CHECK(lacks(issue(), {"certs may be changed by any user (mode 0777)"}) == "");
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
  ::chmod((folder / "certs").c_str(), 0700);
  std::filesystem::create_directory(folder / "a");
  ::chmod((folder / "a").c_str(), 0777);
  CHECK(lacks(issue(), {"a may be changed by any user (mode 0777)"}) == "");
  ::chmod((folder / "a").c_str(), 0700);
  good(certs().issue({"a", {}, {}}, folder / "a"));
}

TEST_CASE_METHOD(CertificateFixture, "a folder that the process's own group may write to gets keys", "[certificates]") {
  std::filesystem::create_directory(folder / "certs");
  REQUIRE(::chown((folder / "certs").c_str(), static_cast<uid_t>(-1), ::getegid()) == 0);
  ::chmod((folder / "certs").c_str(), 0770);
  good(certs().init(10));
}

TEST_CASE("a key is private if nobody else may read it, or if root lends it to the group of another user",
          "[certificates]") {
  using gpuactors::detail::is_private;
  constexpr uid_t root = 0;
  constexpr uid_t user = 1000;
  CHECK(is_private(0600, user, user));
  CHECK(is_private(0400, root, root));
  CHECK_FALSE(is_private(0640, user, user));
  CHECK_FALSE(is_private(0440, root, root));
  CHECK(is_private(0440, root, user));
  CHECK(is_private(0640, root, user));
  for (const mode_t mode : {0660, 0444, 0641, 0650})
    CHECK_FALSE(is_private(mode, root, user));
  CHECK_FALSE(is_private(0440, user + 1, user));
}

TEST_CASE_METHOD(CertificateFixture, "keys are not put where any user may change them", "[certificates]") {
  std::filesystem::create_directory(folder / "open");
  ::chmod((folder / "open").c_str(), 0777);
  CHECK(lacks(why_not(certs("open").init(10)), {"(mode 0777)", "chmod 700"}) == "");
  CHECK(lacks(why_not(certs("open").ensure()), {"(mode 0777)"}) == "");
  CHECK(std::filesystem::is_empty(folder / "open"));
}

TEST_CASE_METHOD(CertificateFixture, "a file that cannot be read is refused with the reason", "[certificates]") {
  good(certs().init(10));
  std::filesystem::remove(folder / "certs/node.pem");
  std::filesystem::create_directory(folder / "certs/node.pem");
  CHECK(lacks(why_not(certs().check()), {"node.pem is no certificate or key"}) == "");
  if (!is_root()) {
    ::chmod((folder / "certs/ca.pem").c_str(), 0);
    CHECK(lacks(why_not(certs().check()), {"ca.pem cannot be read: Permission denied"}) == "");
  }
}

TEST_CASE_METHOD(CertificateFixture, "files that hold something else are refused", "[certificates]") {
  good(certs().init(10));
  const auto certificate = text_of(folder / "certs/node.pem");
  const auto write = [this](const char* name, const std::string& text) {
    std::ofstream{folder / "certs" / name, std::ios::binary} << text;
  };
  write("node.pem", "hello\n");
  CHECK(lacks(why_not(certs().check()), {"node.pem is no certificate in PEM"}) == "");
  write("node.pem", certificate + text_of(folder / "certs/ca.pem"));
  CHECK(lacks(why_not(certs().check()), {"has more than one certificate"}) == "");
  write("node.pem", certificate);
  write("node.key", certificate);
  CHECK(lacks(why_not(certs().check()), {"node.key is no private key in PEM without a passphrase"}) == "");
}

TEST_CASE_METHOD(CertificateFixture, "a key that is not the certificate's is refused", "[certificates]") {
  good(certs().init(10));
  good(certs().issue({"a", {}, {}}, folder / "a"));
  take(folder / "a/node.key", folder / "certs/node.key");
  CHECK(lacks(why_not(certs().check()), {"node.key is not the key of"}) == "");
}

TEST_CASE_METHOD(CertificateFixture, "a certificate of another authority is refused with both names",
                 "[certificates]") {
  good(certs().init(10));
  good(certs("other").init(10));
  take(folder / "other/ca.pem", folder / "certs/ca.pem");
  std::filesystem::remove(folder / "certs/ca.key");
  const auto text = why_not(certs().check());
  CHECK(lacks(text, {good(certs("other").list())[0].subject, good(certs().list())[1].issuer,
                     "was not issued by the authority in", "gpuactors certs issue"})
        == "");
}

TEST_CASE_METHOD(CertificateFixture, "certificates are good between their dates, which the error names",
                 "[certificates]") {
  good(certs().init(100));
  good(certs().issue({"a", {}, 20}, folder / "a"));
  now += Days{20} - std::chrono::seconds{1};
  good(certs("a").check());
  now += std::chrono::seconds{1};
  CHECK(lacks(why_not(certs("a").check()), {"node.pem expired on 2030-01-21 00:00 UTC, and it is 2030-01-21 "
                                            "00:00 UTC now: issue another with gpuactors certs issue"})
        == "");
  now += Days{80};
  CHECK(lacks(why_not(certs("a").check()), {"ca.pem expired on 2030-04-11"}) == "");
  CHECK(lacks(why_not(certs().issue({"b", {}, {}}, folder / "b")), {"ca.pem expired on 2030-04-11"}) == "");
  now -= Days{101};
  CHECK(lacks(why_not(certs("a").check()), {"valid from 2029-12-31 23:50 UTC on", "set the clock"}) == "");
}

// -- the default folder -----------------------------------------------------------------------------

TEST_CASE("the default folder lies in the user's state folder", "[certificates]") {
  const auto* home = std::getenv("HOME");
  const std::string before = home != nullptr ? home : "";
  ::unsetenv("XDG_STATE_HOME");
  ::setenv("HOME", "/nobody", 1);
  CHECK(good(CertificateFolder::default_path()) == "/nobody/.local/state/gpuactors/certs");
  ::setenv("XDG_STATE_HOME", "relative", 1);
  CHECK(good(CertificateFolder::default_path()) == "/nobody/.local/state/gpuactors/certs");
  ::setenv("XDG_STATE_HOME", "/state", 1);
  CHECK(good(CertificateFolder::default_path()) == "/state/gpuactors/certs");
  ::unsetenv("XDG_STATE_HOME");
  ::setenv("HOME", before.c_str(), 1);
}
