// Certificates for the ports of a cluster: an authority, certificates of nodes, and the checks before a process starts.
#pragma once

#include <gpuactors/base/result.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// Time of day: certificates are valid between two dates.
using WallTime = std::chrono::system_clock::time_point;

/// Renders "2026-11-21 06:51 UTC".
[[nodiscard]] std::string to_string(WallTime time);

/// What a process needs to take part in a cluster: the files to hand to TLS, found good.
struct CertificateFiles {
  /// Whom it trusts.
  std::filesystem::path authority;
  /// Who it is.
  std::filesystem::path certificate;
  std::filesystem::path key;
  /// When the first of the two certificates ends.
  WallTime valid_until;
};

/// What one certificate says.
struct CertificateInfo {
  std::filesystem::path file;
  /// Common names of its holder and of who signed it.
  std::string subject;
  std::string issuer;
  /// Host names and addresses it is for; none in an authority's.
  std::vector<std::string> hosts;
  WallTime valid_from;
  WallTime valid_until;
  /// SHA-256 of the whole certificate, as "AB:CD:...".
  std::string fingerprint;
};

/// Whom to issue a certificate for.
struct NodeIdentity {
  /// 1 to 64 letters, digits, dots, hyphens and underscores.
  std::string name;
  /// Host names and IP addresses, without port; the name itself when there are none.
  std::vector<std::string> hosts;
  /// Life in days; left out, `limits::certificate_days`, or as long as the authority lives if that is less.
  std::optional<std::int64_t> days;
};

/// A folder with certificates: `ca.pem` and `ca.key` are the authority, `node.pem` and `node.key` this machine's own.
/// `ca.key` stays on the machine where the authority was made; a node needs the other three.
///
/// Every file appears whole or not at all, also when several processes make the same ones at once. All methods may be
/// called from any thread; errors say in one line what is wrong and which command puts it right.
class CertificateFolder {
public:
  using Now = std::function<WallTime()>;

  /// `now` is the time that certificates are made for and checked at.
  explicit CertificateFolder(
      std::filesystem::path path, Now now = [] { return std::chrono::system_clock::now(); });

  /// The user's own: $XDG_STATE_HOME/gpuactors/certs, or ~/.local/state/gpuactors/certs.
  /// @returns `not_found` when the user has no home.
  [[nodiscard]] static Result<std::filesystem::path> default_path();

  [[nodiscard]] const std::filesystem::path& path() const noexcept {
    return path_;
  }

  /// Makes the authority, to live for `days`, and a certificate for this machine.
  /// @returns `already_exists` when there is one, `invalid_argument` for a life that is not allowed or a folder that
  ///          cannot be written.
  [[nodiscard]] Result<CertificateFiles> init(std::int64_t days) const;

  /// Issues a certificate into the folder `out`, with a copy of `ca.pem`. A `node.key` that `out` has is kept, so that
  /// a process which starts meanwhile never sees a key and a certificate that do not fit.
  /// @returns `not_found` without the authority's key, `invalid_argument` for a name, host or life that is not
  ///          allowed, or an `out` that is the folder of another authority.
  [[nodiscard]] Result<CertificateFiles> issue(const NodeIdentity& node, const std::filesystem::path& out) const;

  /// Finds the files, and whether they would do: all there, keys private, the key that of the certificate, the
  /// certificate signed by the authority, both valid now.
  /// @returns `not_found` for a missing file, `invalid_argument` for anything else.
  [[nodiscard]] Result<CertificateFiles> check() const;

  /// Finds or makes what a process on this machine needs: an authority and a certificate for localhost and this host
  /// on first use; a new certificate, for the same name and hosts, when the old one is near its end
  /// (`limits::certificate_renewal`) and the authority's key is here. What is there otherwise is only checked.
  [[nodiscard]] Result<CertificateFiles> ensure() const;

  /// What the certificates that are there say, the authority first, whether they would do or not.
  /// @returns `not_found` when there are none.
  [[nodiscard]] Result<std::vector<CertificateInfo>> list() const;

private:
  std::filesystem::path path_;
  Now now_;
};

} // namespace gpuactors
