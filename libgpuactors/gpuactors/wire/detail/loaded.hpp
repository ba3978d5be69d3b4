// What lies in a folder of certificates, read and checked.
#pragma once

#include <gpuactors/wire/detail/x509.hpp>

namespace gpuactors::detail {

inline constexpr auto authority_file = "ca.pem";
inline constexpr auto authority_key_file = "ca.key";
inline constexpr auto node_file = "node.pem";
inline constexpr auto node_key_file = "node.key";

/// Reads one file. `not_found` when it is missing.
[[nodiscard]] Result<Certificate> load_certificate(const std::filesystem::path& file);
[[nodiscard]] Result<Key> load_key(const std::filesystem::path& file);

/// An authority, able to sign.
struct Authority {
  Certificate certificate;
  Key key;
};

/// The authority of a folder, valid at `now`.
/// @returns `not_found` without its key.
[[nodiscard]] Result<Authority> load_authority(const std::filesystem::path& folder, WallTime now);

/// The two certificates that a process uses.
struct Loaded {
  CertificateInfo authority;
  CertificateInfo node;
};

/// Reads what a process needs, and checks it but for the dates.
/// @returns `not_found` for a missing file, `invalid_argument` for anything else, with what would be right.
[[nodiscard]] Result<Loaded> load(const std::filesystem::path& folder);

/// The files of a folder, if its certificates are valid at `now`.
[[nodiscard]] Result<CertificateFiles> files_of(const std::filesystem::path& folder, const Loaded& loaded,
                                                WallTime now);

/// Whether it is time for a new certificate, and one would last longer.
[[nodiscard]] bool is_due(const Loaded& loaded, WallTime now);

} // namespace gpuactors::detail
