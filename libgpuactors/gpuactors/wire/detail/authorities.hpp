// The authorities that a folder trusts: their lists of revoked certificates, and how one of them follows another.
#pragma once

#include <gpuactors/wire/detail/x509.hpp>

#include <optional>
#include <vector>

namespace gpuactors::detail {

// The caller holds the lock of the folder that is written to.

/// Write `ca.pem`, and `revoked.pem`.
[[nodiscard]] Result<void> write_authorities(const std::filesystem::path& folder, const Authorities& authorities);
[[nodiscard]] Result<void> write_revocations(const std::filesystem::path& folder, const RevocationLists& lists);

/// Adds certificates to the lists of those who have issued them, which become the folder's.
/// @returns `not_found` if the key of one of these is not there.
[[nodiscard]] Result<void> add_revocations(const std::filesystem::path& folder,
                                           const std::vector<Certificate>& certificates, WallTime now);

/// Makes an authority beside the one that signs, whose key it takes the place of. Each step leaves a folder that can be
/// used, and from which the next call goes on.
[[nodiscard]] Result<CertificateInfo> replace_authority(const std::filesystem::path& folder,
                                                        const CertificateLife& validity, WallTime now);

/// Takes the authority that was replaced out of those that the folder trusts.
/// @param issued what the folder's authorities have issued.
/// @returns it; nothing if an interrupted call has done so.
[[nodiscard]] Result<std::optional<CertificateInfo>> retire_authority(const std::filesystem::path& folder,
                                                                      const std::vector<CertificateInfo>& issued,
                                                                      bool force, WallTime now);

} // namespace gpuactors::detail
