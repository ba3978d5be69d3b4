// Reading and checking the contents of a certificate folder.
#pragma once

#include <gpuactors/wire/detail/x509.hpp>

namespace gpuactors::detail {

inline constexpr auto authority_file = "ca.pem";
inline constexpr auto authority_key_file = "ca.key";
inline constexpr auto node_file = "node.pem";
inline constexpr auto node_key_file = "node.key";
inline constexpr auto revoked_file = "revoked.pem";
inline constexpr auto issued_folder = "issued";

/// Read one file. @returns `not_found` if it is missing.
[[nodiscard]] Result<Certificate> load_certificate(const std::filesystem::path& file);
[[nodiscard]] Result<Key> load_key(const std::filesystem::path& file);

/// Reads the list of revoked certificates that `authority` has signed; null if there is no file.
[[nodiscard]] Result<RevocationList> load_revocations(const std::filesystem::path& file, X509& authority);

/// An authority with its private key, able to sign.
struct Authority {
  Certificate certificate;
  Key key;
};

/// Reads the authority of a folder, and checks that it is valid at `now`.
/// @returns `not_found` if a file is missing, `invalid_argument` if the files cannot be used.
[[nodiscard]] Result<Authority> load_authority(const std::filesystem::path& folder, WallTime now);

/// The two certificates that a process uses.
struct Loaded {
  CertificateInfo authority;
  CertificateInfo node;
};

/// Reads the files that a process needs, and checks everything except the dates.
/// @returns `not_found` for a missing file, `invalid_argument` for anything else, naming the remedy.
[[nodiscard]] Result<Loaded> load(const std::filesystem::path& folder);

/// Returns the paths of the files, or `invalid_argument` if a certificate is not valid at `now`.
[[nodiscard]] Result<CertificateFiles> files_of(const std::filesystem::path& folder, const Loaded& loaded,
                                                WallTime now);

/// Returns whether the node's certificate is due for renewal, and a new one would last longer.
[[nodiscard]] bool is_due(const Loaded& loaded, WallTime now);

} // namespace gpuactors::detail
