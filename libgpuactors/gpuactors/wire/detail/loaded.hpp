// Reading and checking the contents of a certificate folder.
#pragma once

#include <gpuactors/wire/detail/x509.hpp>

namespace gpuactors::detail {

inline constexpr auto authority_file = "ca.pem";
inline constexpr auto authority_key_file = "ca.key";
/// The keys of the authority that is being replaced, and of one that has not been put in use yet.
inline constexpr auto old_authority_key_file = "ca-old.key";
inline constexpr auto next_authority_key_file = "ca-next.key";
inline constexpr auto node_file = "node.pem";
inline constexpr auto node_key_file = "node.key";
inline constexpr auto revoked_file = "revoked.pem";
inline constexpr auto issued_folder = "issued";

/// Read one file. @returns `not_found` if it is missing.
[[nodiscard]] Result<Certificate> load_certificate(const std::filesystem::path& file);
[[nodiscard]] Result<Key> load_key(const std::filesystem::path& file);

[[nodiscard]] Result<Authorities> load_authorities(const std::filesystem::path& file);

/// Reads all lists of revoked certificates of a file; none if there is no file.
[[nodiscard]] Result<RevocationLists> load_all_revocations(const std::filesystem::path& file);

/// Reads the newest list of each of `authorities`; none if there is no file.
/// @returns `invalid_argument` also if no list of the file is of any of them.
[[nodiscard]] Result<RevocationLists> load_revocations(const std::filesystem::path& file,
                                                       const Authorities& authorities);

/// An authority with its private key, able to sign.
struct Authority {
  Certificate certificate;
  Key key;
};

/// Reads the authority of a folder that signs what is issued there, and checks that it is valid at `now`.
/// @returns `not_found` if a file is missing, `invalid_argument` if the files cannot be used.
[[nodiscard]] Result<Authority> load_authority(const std::filesystem::path& folder, WallTime now);

/// Reads the authorities of a folder whose keys are there, whatever their dates: the one that signs, then the one that
/// it replaces, if there is one.
/// @returns as `load_authority`.
[[nodiscard]] Result<std::vector<Authority>> load_signers(const std::filesystem::path& folder);

/// The certificates that a process uses: its own, and that of the authority that has issued it.
struct Loaded {
  CertificateInfo authority;
  CertificateInfo node;
  /// When the authority ends that would issue another one: the folder's own, or else that which has issued this one.
  WallTime renewable_until;
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
