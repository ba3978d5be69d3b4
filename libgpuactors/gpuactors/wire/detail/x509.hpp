// Keys and certificates: the part of OpenSSL that the library uses, with owning pointers and errors as values.
#pragma once

#include <gpuactors/wire/certificates.hpp>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>

namespace gpuactors::detail {

/// Deleter that calls the OpenSSL function for the pointer's type.
template <auto Function>
struct FreeBy {
  template <class T>
  void operator()(T* object) const noexcept {
    Function(object);
  }
};

using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using RevocationList = std::unique_ptr<X509_CRL, FreeBy<X509_CRL_free>>;
/// Those whom a process trusts, one at least, and lists of revoked certificates, as a file has them or one of each.
using Authorities = std::vector<Certificate>;
using RevocationLists = std::vector<RevocationList>;

/// Makes a new key: ECDSA on P-256.
[[nodiscard]] Result<Key> make_key();

/// Makes the self-signed certificate of an authority. Its name is derived from its key.
[[nodiscard]] Result<Certificate> make_authority(EVP_PKEY& key, const CertificateLife& validity);

/// Makes the certificate of a node or a client, signed by an authority. Name and hosts must be valid.
[[nodiscard]] Result<Certificate> make_node(const CertificateOwner& owner, EVP_PKEY& key, X509& authority,
                                            EVP_PKEY& authority_key, const CertificateLife& validity);

/// Makes the list that follows `before`, with `added` revoked at `now`. Null: there was none before.
/// @param added those that `authority` has issued; there may be none.
[[nodiscard]] Result<RevocationList> make_revocations(X509_CRL* before, const std::vector<X509*>& added,
                                                      X509& authority, EVP_PKEY& authority_key, WallTime now);

/// Render as PEM; keys as PKCS #8 without a passphrase.
[[nodiscard]] Result<std::string> to_pem(EVP_PKEY& key);
[[nodiscard]] Result<std::string> to_pem(X509& certificate);
[[nodiscard]] Result<std::string> to_pem(X509_CRL& list);

/// Read PEM with exactly one certificate, or with a key without a passphrase.
/// @returns `invalid_argument` that names `file`.
[[nodiscard]] Result<Key> key_from_pem(std::string_view pem, const std::filesystem::path& file);
[[nodiscard]] Result<Certificate> certificate_from_pem(std::string_view pem, const std::filesystem::path& file);

/// Reads PEM with the certificates of authorities, one to `limits::authorities_most`.
/// @returns `invalid_argument` that names `file`.
[[nodiscard]] Result<Authorities> authorities_from_pem(std::string_view pem, const std::filesystem::path& file);

/// Reads PEM with lists of revoked certificates, one at least, whoever has signed them.
/// @returns `invalid_argument` that names `file`.
[[nodiscard]] Result<RevocationLists> revocations_from_pem(std::string_view pem, const std::filesystem::path& file);

/// Returns one list of each of `authorities` that has any, its newest, and none of others.
[[nodiscard]] RevocationLists newest_of(const Authorities& authorities, const RevocationLists& lists);

/// Returns when the certificate was revoked, according to the list of its authority; none if it was not.
[[nodiscard]] std::optional<WallTime> when_revoked(X509& certificate, const RevocationLists& lists);

/// Returns whether `authority` has signed the certificate, or the list.
[[nodiscard]] bool is_issued_by(X509& certificate, X509& authority);
[[nodiscard]] bool is_list_of(X509_CRL& list, X509& authority);

/// Returns who of the authorities has signed the certificate; null if none of them has.
[[nodiscard]] X509* issuer_of(X509& certificate, const Authorities& authorities);

/// Returns the newest list that `authority` has signed, by the number that it counts them with, the last of several;
/// null if it has none.
[[nodiscard]] X509_CRL* list_of(X509& authority, const RevocationLists& lists);

/// Returns what the owner of a certificate may do.
[[nodiscard]] CertificateRole role_of(X509& certificate);

/// Returns the owner's name.
[[nodiscard]] std::string name_of(X509& certificate);

/// Returns the contents of a certificate; `file` is only recorded in the result.
[[nodiscard]] CertificateInfo describe(X509& certificate, const std::filesystem::path& file);

/// Returns whether `key` is the private key of the certificate.
[[nodiscard]] bool belongs_to(EVP_PKEY& key, X509& certificate);

/// Returns why peers that trust `authorities` would refuse `certificate` regardless of the date; empty if they would
/// accept it.
[[nodiscard]] std::string why_refused(X509& certificate, const Authorities& authorities);

/// Returns whether `host` is an IPv4 or IPv6 address.
[[nodiscard]] bool is_address(const std::string& host);

} // namespace gpuactors::detail
