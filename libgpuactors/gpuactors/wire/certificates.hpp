// Certificates for the ports of a cluster: the authority, the nodes' certificates, and the checks before a process
// starts.
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

/// Wall-clock time, in which the validity of certificates is expressed.
using WallTime = std::chrono::system_clock::time_point;

/// Renders "2026-11-21 06:51 UTC".
[[nodiscard]] std::string to_string(WallTime time);

/// The time in which a certificate may be used.
struct CertificateLife {
  WallTime from;
  WallTime until;

  friend bool operator==(const CertificateLife&, const CertificateLife&) = default;
};

/// Returns when warnings of a certificate's expiry begin: `before` that, or in the last sixth of a short life.
[[nodiscard]] inline WallTime warns_of(const CertificateLife& life, WallTime::duration before) noexcept {
  const auto sixth = (life.until - life.from) / 6;
  return life.until - (before < sixth ? before : sixth);
}

/// What the owner of a certificate may do in a cluster. The certificate's extended key usage says it: a node's is for
/// servers and clients, a client's is for clients only.
enum class CertificateRole : std::uint8_t {
  /// Everything: run the broker and nodes, and administer the cluster.
  node,
  /// Use the cluster: submit, spawn, call, see its state, and end what this name has started. Neither serve it nor
  /// administer it.
  client,
};

/// Returns "node" or "client".
[[nodiscard]] std::string_view to_string(CertificateRole role) noexcept;

/// The checked files that a process hands to TLS in order to take part in a cluster.
struct CertificateFiles {
  /// The certificates of the authorities that the process trusts.
  std::filesystem::path authority;
  /// The certificate and private key of the process itself.
  std::filesystem::path certificate;
  std::filesystem::path key;
  /// When the process's certificate or that of its authority expires, whichever is first.
  WallTime valid_until;
  /// The authorities' lists of revoked certificates. There need not be any.
  std::filesystem::path revoked{};
  CertificateRole role = CertificateRole::node;
};

/// The contents of one certificate.
struct CertificateInfo {
  std::filesystem::path file;
  /// Common names of the certificate's owner and of its signer.
  std::string subject;
  std::string issuer;
  /// Host names and addresses that the certificate is valid for; none in an authority's.
  std::vector<std::string> hosts;
  WallTime valid_from;
  WallTime valid_until;
  /// SHA-256 of the whole certificate, as "AB:CD:...".
  std::string fingerprint;
  /// What its owner may do; of no meaning for an authority's.
  CertificateRole role = CertificateRole::node;
  bool is_authority = false;
  /// The serial number that the authority gave it, in hexadecimal digits.
  std::string serial;
  /// When the authority revoked it.
  std::optional<WallTime> revoked{};
};

/// The owner for whom a certificate is issued: a machine, or a user.
struct CertificateOwner {
  /// 1 to 64 letters, digits, dots, hyphens and underscores.
  std::string name;
  /// Host names and IP addresses, without port; if empty, the name itself.
  std::vector<std::string> hosts;
  /// Lifetime in days. Default: `limits::certificate_days`, or the authority's remaining lifetime if that is shorter.
  std::optional<std::int64_t> days;
  CertificateRole role = CertificateRole::node;
};

/// A folder with certificates: `ca.pem` and `ca.key` are the authority, `node.pem` and `node.key` this machine's own.
/// `ca.key` stays on the machine where the authority was made; a node needs the other three. `revoked.pem`, if there is
/// one, is the authority's list of certificates that are no longer good; `issued` has copies of all that it has issued.
/// While an authority is being replaced, `ca.pem` and `revoked.pem` have both, and `ca-old.key` is the old one's key.
///
/// Every file appears complete or not at all, even if several processes create the same ones at once. All methods may
/// be called from any thread; errors say in one line what is wrong and which command fixes it.
class CertificateFolder {
public:
  using Now = std::function<WallTime()>;

  /// `now` provides the time at which certificates are made and checked.
  explicit CertificateFolder(
      std::filesystem::path path, Now now = [] { return std::chrono::system_clock::now(); });

  /// Returns the user's default folder: $XDG_STATE_HOME/gpuactors/certs, or ~/.local/state/gpuactors/certs.
  /// @returns `not_found` if the user has no home folder.
  [[nodiscard]] static Result<std::filesystem::path> default_path();

  [[nodiscard]] const std::filesystem::path& path() const noexcept {
    return path_;
  }

  /// Makes an authority with a lifetime of `days`, and a certificate for this machine.
  /// @returns `already_exists` if the folder has an authority or files of another one, `invalid_argument` for a
  ///          lifetime that is not allowed or a folder that cannot be written.
  [[nodiscard]] Result<CertificateFiles> init(std::int64_t days) const;

  /// Issues a certificate into the folder `out`, with a copy of `ca.pem`. An existing `node.key` in `out` is kept, so
  /// that a process that starts meanwhile never sees a key and a certificate that do not match.
  /// @returns `not_found` without the authority's key, `invalid_argument` for a name, host or lifetime that is not
  ///          allowed, or an `out` that is the folder of another authority.
  [[nodiscard]] Result<CertificateFiles> issue(const CertificateOwner& owner, const std::filesystem::path& out) const;

  /// Returns the certificates that this folder's authority has issued, the earliest first; `revoked` is set in those
  /// that it has revoked.
  [[nodiscard]] Result<std::vector<CertificateInfo>> issued() const;

  /// Revokes certificates: adds them to `revoked.pem`, which has to be copied to the other machines. Processes that
  /// have the list refuse their owners, and end the connections that they have with them.
  /// @param which the name of an owner, all of whose certificates are revoked; the serial number of one; or a file with
  ///        one.
  /// @returns the certificates that were not revoked before; `not_found` for one that this authority has not issued, or
  ///          without the authority's key; `already_exists` if all of them were revoked.
  [[nodiscard]] Result<std::vector<CertificateInfo>> revoke(const std::string& which) const;

  /// Makes another authority, which signs from now on; its predecessor is also trusted until it is retired. Copy
  /// `ca.pem` and `revoked.pem` to all machines before any certificate of the new one. An interrupted replacement is
  /// completed.
  /// @param days the new authority's lifetime, which must end later than its predecessor's.
  /// @returns the new authority; `not_found` without the authority's key, `already_exists` if another one is being
  ///          replaced, `invalid_argument` for a lifetime that is not allowed.
  [[nodiscard]] Result<CertificateInfo> replace_authority(std::int64_t days) const;

  /// Ends a replacement: the authority that was replaced is no longer trusted. Copy `ca.pem` to all machines
  /// afterwards. Existing connections stay.
  /// @param force retire it even if an owner has no valid certificate of the new authority yet.
  /// @returns the authority that is no longer trusted, or nothing if an earlier call has got so far; `not_found` if no
  ///          authority is being replaced, or without the key of the one that signs; `invalid_argument`, naming the
  ///          owners who would be locked out.
  [[nodiscard]] Result<std::optional<CertificateInfo>> retire_authority(bool force) const;

  /// Checks that the folder's files can be used: all exist, keys are private, the key belongs to the certificate, the
  /// authority signed the certificate, and both certificates are valid now.
  /// @returns `not_found` for a missing file, `invalid_argument` for anything else.
  [[nodiscard]] Result<CertificateFiles> check() const;

  /// Finds or makes the files that a process on this machine needs: on first use, an authority and a certificate for
  /// localhost and this host; later a new certificate, for the same name and hosts, when the old one is near its expiry
  /// (`limits::certificate_renewal`) and the authority's key is here. All other existing files are only checked.
  [[nodiscard]] Result<CertificateFiles> ensure() const;

  /// Returns the contents of the folder's certificates, those of authorities first, whether or not they can be used.
  /// @returns `not_found` if there are none.
  [[nodiscard]] Result<std::vector<CertificateInfo>> list() const;

private:
  std::filesystem::path path_;
  Now now_;
};

} // namespace gpuactors
