#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/certificates.hpp>
#include <gpuactors/wire/detail/authorities.hpp>
#include <gpuactors/wire/detail/loaded.hpp>
#include <gpuactors/wire/detail/private_files.hpp>
#include <gpuactors/wire/detail/x509.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <tuple>
#include <utility>

namespace gpuactors {

using namespace detail;
using Path = std::filesystem::path;

namespace {

constexpr std::size_t name_length = 64; // the limit of X.509 for a common name
constexpr std::size_t host_length = 253;
constexpr std::size_t label_length = 63;

using Days = std::chrono::duration<std::int64_t, std::ratio<86'400>>;

// The clocks of machines differ, so certificates are valid from a little before their creation.
constexpr std::chrono::minutes skew{10};

// -- names and lives ------------------------------------------------------------------------------

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

bool is_host_name(std::string_view host) {
  if (host.size() > host_length)
    return false;
  for (bool first = true;; first = false) {
    const auto dot = host.find('.');
    const auto label = host.substr(0, dot);
    if (!is_word(label) || label.size() > label_length || label.front() == '-' || label.back() == '-')
      return false;
    if (dot == std::string_view::npos) // an all-digit last label, as in "10.0.0.300", was meant as an address
      return first || label.find_first_not_of("0123456789") != std::string_view::npos;
    host.remove_prefix(dot + 1);
  }
}

Result<void> check_owner(const CertificateOwner& owner) {
  if (owner.name.size() > name_length || !is_host_name(owner.name))
    return fail(Errc::invalid_argument,
                fmt::format("\"{}\" cannot be the name of a certificate: 1 to {} letters, digits, dots, hyphens and "
                            "underscores are expected, such as node-1",
                            owner.name, name_length));
  for (const auto& host : owner.hosts)
    if (!is_host_name(host) && !is_address(host))
      return fail(Errc::invalid_argument,
                  fmt::format("\"{}\" is no host: a name such as gpu1.example.org or an address such as 10.0.0.1 or "
                              "fd00::1 is expected, without port and brackets",
                              host));
  return {};
}

Result<void> check_days(std::int64_t days) {
  if (days < 1 || days > limits::authority_days_most)
    return fail(Errc::invalid_argument, fmt::format("a certificate cannot live for {} days: 1 to {} are expected", days,
                                                    limits::authority_days_most));
  return {};
}

/// Returns this machine's identity, named localhost if its host name cannot be used in a certificate.
CertificateOwner this_machine() {
  std::array<char, host_length + 1> host{};
  const bool known = ::gethostname(host.data(), host.size() - 1) == 0 && is_host_name(host.data());
  const std::string name = known ? host.data() : "localhost";
  CertificateOwner owner{name.size() <= name_length ? name : "localhost", {"localhost", "127.0.0.1", "::1"}, {}};
  if (name != "localhost")
    owner.hosts.push_back(name);
  return owner;
}

// -- making what it lacks: the caller holds the lock of the folder that is written to -----------------

/// Makes an authority, or completes one of which an interrupted process left only the key.
Result<void> make_authority_in(const Path& folder, std::int64_t days, WallTime now) {
  const auto key_path = folder / authority_key_file;
  if (!is_there(key_path)) {
    GPUACTORS_LET(key, make_key());
    GPUACTORS_LET(pem, to_pem(*key));
    GPUACTORS_TRY(write_file(key_path, pem, Access::owner, Existing::refuse));
  }
  GPUACTORS_LET(key, load_key(key_path));
  GPUACTORS_LET(authority, make_authority(*key, {now - skew, now + Days{days}}));
  GPUACTORS_LET(pem, to_pem(*authority));
  return write_file(folder / authority_file, pem, Access::all, Existing::refuse);
}

Result<WallTime> end_of_life(const CertificateOwner& owner, const CertificateInfo& authority, WallTime now) {
  if (!owner.days)
    return std::min(now + Days{limits::certificate_days}, authority.valid_until);
  GPUACTORS_TRY(check_days(*owner.days));
  const auto until = now + Days{*owner.days};
  if (until > authority.valid_until)
    return fail(Errc::invalid_argument,
                fmt::format("a certificate for {} days would outlive its authority, which ends on {}: ask for at most "
                            "{} days, or for none",
                            *owner.days, to_string(authority.valid_until),
                            std::chrono::floor<Days>(authority.valid_until - now).count()));
  return until;
}

/// Whether the certificate in this file was revoked. False if there is none that can be read.
bool is_revoked(const Path& file, const RevocationLists& revocations) {
  if (!is_there(file))
    return false;
  const auto certificate = load_certificate(file);
  return certificate && when_revoked(**certificate, revocations);
}

/// Keeps a copy of a certificate before its owner gets it: what nobody has noted cannot be revoked by its name.
Result<void> note_issued(const Path& folder, X509& certificate, std::string_view pem) {
  GPUACTORS_TRY(make_private_folder(folder / issued_folder));
  const auto file = folder / issued_folder / (describe(certificate, {}).serial + ".pem");
  return write_file(file, pem, Access::all, Existing::refuse);
}

/// Writes the three files that a node needs, and the lists of revoked certificates. Keeps an existing key, unless its
/// certificate was revoked.
Result<void> issue_into(const Path& folder, const Path& out, CertificateOwner owner, WallTime now) {
  if (owner.hosts.empty())
    owner.hosts.push_back(owner.name);
  GPUACTORS_TRY(check_owner(owner));
  GPUACTORS_LET(authority, load_authority(folder, now));
  GPUACTORS_LET(until, end_of_life(owner, describe(*authority.certificate, folder / authority_file), now));
  GPUACTORS_LET(authorities, load_authorities(folder / authority_file));
  // Those of retired authorities, too: a key that was revoked is good for nothing any more.
  GPUACTORS_LET(revocations, load_all_revocations(folder / revoked_file));
  if (!is_there(out / node_key_file) || is_revoked(out / node_file, revocations)) {
    GPUACTORS_LET(key, make_key());
    GPUACTORS_LET(pem, to_pem(*key));
    GPUACTORS_TRY(write_file(out / node_key_file, pem, Access::owner, Existing::replace));
  }
  GPUACTORS_LET(key, load_key(out / node_key_file));
  GPUACTORS_LET(certificate, make_node(owner, *key, *authority.certificate, *authority.key, {now - skew, until}));
  GPUACTORS_LET(pem, to_pem(*certificate));
  GPUACTORS_TRY(note_issued(folder, *certificate, pem));
  if (std::error_code error; !std::filesystem::equivalent(folder, out, error)) {
    GPUACTORS_TRY(write_authorities(out, authorities));
    if (!revocations.empty())
      GPUACTORS_TRY(write_revocations(out, revocations));
  }
  return write_file(out / node_file, pem, Access::all, Existing::replace);
}

/// The certificates that `which` names: those of an owner, one by its serial number, or one in a file.
Result<std::vector<CertificateInfo>> find_issued(const std::string& which, std::vector<CertificateInfo> issued,
                                                 const Authorities& authorities) {
  if (std::error_code error; std::filesystem::is_regular_file(which, error)) {
    GPUACTORS_LET(certificate, load_certificate(which));
    if (issuer_of(*certificate, authorities) == nullptr)
      return fail(Errc::not_found, fmt::format("{} is a certificate of another authority: {} can revoke only what it "
                                               "has issued",
                                               which, name_of(*authorities.front())));
    return std::vector{describe(*certificate, which)};
  }
  std::erase_if(issued, [&](const CertificateInfo& info) { return info.subject != which && info.serial != which; });
  if (issued.empty())
    return fail(Errc::not_found,
                fmt::format("\"{}\" is no name or serial number of a certificate that was issued here: "
                            "gpuactors certs issued lists them; or name a file with the certificate",
                            which));
  return issued;
}

Result<FolderLock> open_folder(const Path& folder) {
  GPUACTORS_TRY(make_private_folder(folder));
  return FolderLock::take(folder);
}

bool is_new(const Path& folder) {
  return !is_there(folder / authority_file) && !is_there(folder / node_file) && !is_there(folder / node_key_file);
}

/// Makes or renews the missing or expiring files of a folder that is new or has the authority's key.
Result<void> complete(const Path& folder, WallTime now) {
  GPUACTORS_LET(lock, open_folder(folder));
  (void)lock;
  const bool has_key = is_there(folder / authority_key_file); // another process may have made it before the lock
  if (!is_there(folder / authority_file) && (has_key || is_new(folder)))
    GPUACTORS_TRY(make_authority_in(folder, limits::authority_days, now));
  if (!is_there(folder / node_file))
    return issue_into(folder, folder, this_machine(), now);
  GPUACTORS_LET(loaded, load(folder));
  if (is_due(loaded, now))
    return issue_into(folder, folder, {loaded.node.subject, loaded.node.hosts, {}, loaded.node.role}, now);
  return {};
}

} // namespace

// -- what others see ------------------------------------------------------------------------------

std::string_view to_string(CertificateRole role) noexcept {
  return role == CertificateRole::client ? "client" : "node";
}

std::string to_string(WallTime time) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

CertificateFolder::CertificateFolder(Path path, Now now) : path_(std::move(path)), now_(std::move(now)) {
  // nop
}

Result<Path> CertificateFolder::default_path() {
  const Path below = Path{"gpuactors"} / "certs";
  // The XDG specification says to ignore a relative XDG_STATE_HOME.
  if (const auto* state = std::getenv("XDG_STATE_HOME"); state != nullptr && Path{state}.is_absolute())
    return Path{state} / below;
  const auto* home = std::getenv("HOME");
  std::array<char, 16'384> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (home == nullptr || *home == '\0')
    if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
      home = found->pw_dir;
  if (home == nullptr || !Path{home}.is_absolute())
    return fail(Errc::not_found, "the user has no home folder for certificates: name a folder, or set HOME or "
                                 "XDG_STATE_HOME");
  return Path{home} / ".local" / "state" / below;
}

Result<CertificateFiles> CertificateFolder::init(std::int64_t days) const {
  GPUACTORS_TRY(check_days(days));
  GPUACTORS_LET(lock, open_folder(path_));
  if (is_there(path_ / authority_file) && is_there(path_ / authority_key_file))
    return fail(Errc::already_exists,
                fmt::format("{0} has an authority: issue certificates with gpuactors certs issue NAME --certs {0}, or "
                            "name a new folder for another one",
                            path_.string()));
  for (const auto* file : {authority_file, node_file, node_key_file})
    if (is_there(path_ / file) && !is_there(path_ / authority_key_file))
      return fail(Errc::already_exists, fmt::format("{} is there, of an authority that was made elsewhere: name a new "
                                                    "folder for another one",
                                                    (path_ / file).string()));
  const auto now = now_();
  GPUACTORS_TRY(make_authority_in(path_, days, now));
  GPUACTORS_TRY(issue_into(path_, path_, this_machine(), now));
  (void)lock;
  return check();
}

Result<CertificateFiles> CertificateFolder::issue(const CertificateOwner& owner, const Path& out) const {
  GPUACTORS_TRY(check_owner(owner));
  const auto now = now_();
  GPUACTORS_TRY(load_authority(path_, now)); // fails before anything is created
  GPUACTORS_TRY(make_private_folder(path_)); // it is there
  GPUACTORS_LET(lock, open_folder(out));
  std::error_code error;
  if (is_there(out / authority_key_file) && !std::filesystem::equivalent(path_, out, error))
    return fail(Errc::invalid_argument, fmt::format("{} is the folder of another authority (it has {}): name another",
                                                    out.string(), authority_key_file));
  GPUACTORS_TRY(issue_into(path_, out, owner, now));
  (void)lock;
  return CertificateFolder{out, now_}.check();
}

Result<std::vector<CertificateInfo>> CertificateFolder::issued() const {
  GPUACTORS_LET(authorities, load_authorities(path_ / authority_file));
  GPUACTORS_TRY(load_revocations(path_ / revoked_file, authorities)); // whether they are those of this authority
  GPUACTORS_LET(revocations, load_all_revocations(path_ / revoked_file));
  std::vector<CertificateInfo> result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator{path_ / issued_folder, error}) {
    if (entry.path().extension() != ".pem")
      continue;
    GPUACTORS_LET(certificate, load_certificate(entry.path()));
    result.push_back(describe(*certificate, entry.path()));
    result.back().revoked = when_revoked(*certificate, revocations);
  }
  std::sort(result.begin(), result.end(), [](const CertificateInfo& a, const CertificateInfo& b) {
    return std::tie(a.valid_from, a.subject, a.serial) < std::tie(b.valid_from, b.subject, b.serial);
  });
  return result;
}

Result<std::vector<CertificateInfo>> CertificateFolder::revoke(const std::string& which) const {
  const auto now = now_();
  GPUACTORS_TRY(load_authority(path_, now)); // fails before anything is created
  GPUACTORS_LET(lock, open_folder(path_));
  GPUACTORS_LET(authorities, load_authorities(path_ / authority_file));
  GPUACTORS_LET(lists, load_revocations(path_ / revoked_file, authorities));
  GPUACTORS_LET(known, issued());
  GPUACTORS_LET(found, find_issued(which, std::move(known), authorities));
  std::vector<Certificate> certificates;
  std::vector<CertificateInfo> result;
  for (auto& info : found) {
    GPUACTORS_LET(certificate, load_certificate(info.file));
    if (when_revoked(*certificate, lists))
      continue;
    info.revoked = now;
    result.push_back(std::move(info));
    certificates.push_back(std::move(certificate));
  }
  if (certificates.empty())
    return fail(Errc::already_exists, fmt::format("{} is revoked already", which));
  GPUACTORS_TRY(add_revocations(path_, certificates, now));
  (void)lock;
  return result;
}

Result<CertificateInfo> CertificateFolder::replace_authority(std::int64_t days) const {
  GPUACTORS_TRY(check_days(days));
  GPUACTORS_TRY(load_signers(path_)); // fails before anything is created
  GPUACTORS_LET(lock, open_folder(path_));
  const auto now = now_();
  (void)lock;
  return detail::replace_authority(path_, {now - skew, now + Days{days}}, now);
}

Result<std::optional<CertificateInfo>> CertificateFolder::retire_authority(bool force) const {
  GPUACTORS_TRY(load_signers(path_)); // fails before anything is created
  GPUACTORS_LET(lock, open_folder(path_));
  GPUACTORS_LET(known, issued());
  (void)lock;
  return detail::retire_authority(path_, known, force, now_());
}

Result<CertificateFiles> CertificateFolder::check() const {
  GPUACTORS_LET(loaded, load(path_));
  return files_of(path_, loaded, now_());
}

Result<CertificateFiles> CertificateFolder::ensure() const {
  const auto now = now_();
  // The common case needs no lock, and works in a read-only folder.
  if (auto loaded = load(path_); loaded && !is_due(*loaded, now))
    return files_of(path_, *loaded, now);
  // The authority's key is created first: a folder with files but without that key was filled from another machine.
  if (!is_new(path_) && !is_there(path_ / authority_key_file))
    return check();
  const auto completed = complete(path_, now);
  auto files = check();
  // Valid files suffice even if the renewal failed, for example on a full disk.
  if (!files && !completed)
    return fail(completed.error());
  return files;
}

Result<std::vector<CertificateInfo>> CertificateFolder::list() const {
  std::vector<CertificateInfo> result;
  if (const auto file = path_ / authority_file; is_there(file)) {
    GPUACTORS_LET(authorities, load_authorities(file));
    for (const auto& authority : authorities)
      result.push_back(describe(*authority, file));
  }
  if (const auto file = path_ / node_file; is_there(file)) {
    GPUACTORS_LET(certificate, load_certificate(file));
    result.push_back(describe(*certificate, file));
  }
  if (result.empty()) // Fails with the same text as the start of a process does.
    GPUACTORS_TRY(load(path_));
  return result;
}

} // namespace gpuactors
