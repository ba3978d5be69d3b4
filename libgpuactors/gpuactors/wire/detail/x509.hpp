// Keys and certificates: the part of OpenSSL that the library uses, with owners and errors as values.
#pragma once

#include <gpuactors/wire/certificates.hpp>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>

namespace gpuactors::detail {

/// Calls OpenSSL's own function to free what a pointer owns.
template <auto Function>
struct FreeBy {
  template <class T>
  void operator()(T* object) const noexcept {
    Function(object);
  }
};

using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;

/// From when to when a certificate is valid.
struct Validity {
  WallTime from;
  WallTime until;
};

/// A new key: ECDSA on P-256.
[[nodiscard]] Result<Key> make_key();

/// The certificate of an authority, signed by itself. Its name follows from its key.
[[nodiscard]] Result<Certificate> make_authority(EVP_PKEY& key, const Validity& validity);

/// The certificate of a node, as server and as client, signed by an authority. Name and hosts must be valid.
[[nodiscard]] Result<Certificate> make_node(const NodeIdentity& node, EVP_PKEY& key, X509& authority,
                                            EVP_PKEY& authority_key, const Validity& validity);

/// Renders as PEM, keys as PKCS 8 without a passphrase.
[[nodiscard]] Result<std::string> to_pem(EVP_PKEY& key);
[[nodiscard]] Result<std::string> to_pem(X509& certificate);

/// Reads PEM that holds one certificate or one key without a passphrase.
/// @returns `invalid_argument` that names `file`.
[[nodiscard]] Result<Key> key_from_pem(std::string_view pem, const std::filesystem::path& file);
[[nodiscard]] Result<Certificate> certificate_from_pem(std::string_view pem, const std::filesystem::path& file);

/// What a certificate that lies in `file` says.
[[nodiscard]] CertificateInfo describe(X509& certificate, const std::filesystem::path& file);

/// Whether `key` is the private half of the certificate's.
[[nodiscard]] bool belongs_to(EVP_PKEY& key, X509& certificate);

/// Why peers that trust `authority` would refuse `certificate` at any date; empty if they would not.
[[nodiscard]] std::string why_refused(X509& certificate, X509& authority);

/// Whether this is an IPv4 or IPv6 address.
[[nodiscard]] bool is_address(const std::string& host);

} // namespace gpuactors::detail
