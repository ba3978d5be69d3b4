#include "x509.hpp"

#include <gpuactors/base/limits.hpp>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace gpuactors::detail {

namespace {

using Bio = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using BigNumber = std::unique_ptr<BIGNUM, FreeBy<BN_free>>;
using Integer = std::unique_ptr<ASN1_INTEGER, FreeBy<ASN1_INTEGER_free>>;
using Time = std::unique_ptr<ASN1_TIME, FreeBy<ASN1_TIME_free>>;
using Revoked = std::unique_ptr<X509_REVOKED, FreeBy<X509_REVOKED_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, FreeBy<X509_EXTENSION_free>>;
using Name = std::unique_ptr<GENERAL_NAME, FreeBy<GENERAL_NAME_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, FreeBy<GENERAL_NAMES_free>>;
using Store = std::unique_ptr<X509_STORE, FreeBy<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, FreeBy<X509_STORE_CTX_free>>;

constexpr long version_3 = 2;      // counted from 0
constexpr int serial_bits = 127;   // positive, at most 20 bytes, practically unique
constexpr std::size_t id_size = 8; // hex digits of the id in an authority's name

/// Returns the oldest of this thread's OpenSSL errors, and clears them all.
std::string last_error() {
  const auto code = ERR_get_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "no reason given";
}

Failure fail_openssl(std::string_view what) {
  return fail(Errc::internal, fmt::format("OpenSSL cannot make {}: {}", what, last_error()));
}

std::string hex(const unsigned char* bytes, std::size_t count, std::string_view between) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i)
    result += fmt::format("{}{:02X}", i == 0 ? "" : between, bytes[i]);
  return result;
}

bool set_serial(X509& certificate) {
  const BigNumber serial{BN_new()};
  return serial && BN_rand(serial.get(), serial_bits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1
         && BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(&certificate)) != nullptr;
}

bool set_validity(X509& certificate, const CertificateLife& validity) {
  using std::chrono::system_clock;
  return ASN1_TIME_set(X509_getm_notBefore(&certificate), system_clock::to_time_t(validity.from)) != nullptr
         && ASN1_TIME_set(X509_getm_notAfter(&certificate), system_clock::to_time_t(validity.until)) != nullptr;
}

bool set_common_name(X509& certificate, const std::string& name) {
  return X509_NAME_add_entry_by_NID(X509_get_subject_name(&certificate), NID_commonName, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(name.data()), static_cast<int>(name.size()),
                                    -1, 0)
         == 1;
}

bool add_extension(X509& certificate, X509& issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const Extension extension{X509V3_EXT_conf_nid(nullptr, &context, kind, value)};
  return extension && X509_add_ext(&certificate, extension.get(), -1) == 1;
}

bool add_hosts(X509& certificate, const std::vector<std::string>& hosts) {
  const Names names{GENERAL_NAMES_new()};
  for (const auto& host : hosts) {
    Name name{a2i_GENERAL_NAME(nullptr, nullptr, nullptr, is_address(host) ? GEN_IPADD : GEN_DNS, host.c_str(), 0)};
    if (!names || !name || sk_GENERAL_NAME_push(names.get(), name.get()) == 0)
      return false;
    (void)name.release();
  }
  return X509_add1_ext_i2d(&certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

/// Makes the common part of the certificates of authorities and nodes.
Result<Certificate> make_certificate(EVP_PKEY& key, const CertificateLife& validity) {
  Certificate certificate{X509_new()};
  if (!certificate || X509_set_version(certificate.get(), version_3) != 1 || !set_serial(*certificate)
      || !set_validity(*certificate, validity) || X509_set_pubkey(certificate.get(), &key) != 1)
    return fail_openssl("a certificate");
  return certificate;
}

template <class Write>
Result<std::string> write_pem(Write write) {
  const Bio bio{BIO_new(BIO_s_secmem())}; // secure memory, overwritten when freed
  if (!bio || write(bio.get()) != 1)
    return fail_openssl("PEM");
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

Bio reader(std::string_view text) {
  return Bio{BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
}

/// Replaces OpenSSL's own callback, which would prompt for a passphrase at the terminal.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

std::string common_name(const X509_NAME* name) {
  std::array<char, 256> text{};
  const int size = X509_NAME_get_text_by_NID(name, NID_commonName, text.data(), static_cast<int>(text.size()));
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : std::string{};
}

WallTime time_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? std::chrono::system_clock::from_time_t(timegm(&parts)) : WallTime{};
}

std::string text_of(const GENERAL_NAME& name) {
  int kind = 0;
  const auto* value = static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(&name, &kind));
  const auto* data = ASN1_STRING_get0_data(value);
  const auto size = static_cast<std::size_t>(ASN1_STRING_length(value));
  if (kind == GEN_DNS)
    return {reinterpret_cast<const char*>(data), size};
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool is_v4 = size == sizeof(in_addr);
  if (inet_ntop(is_v4 ? AF_INET : AF_INET6, data, text.data(), static_cast<socklen_t>(text.size())) == nullptr)
    return {};
  return text.data();
}

std::vector<std::string> hosts_of(X509& certificate) {
  const Names names{
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr))};
  std::vector<std::string> hosts;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const auto& name = *sk_GENERAL_NAME_value(names.get(), i);
    if (name.type == GEN_DNS || name.type == GEN_IPADD)
      hosts.push_back(text_of(name));
  }
  return hosts;
}

std::string serial_of(X509& certificate) {
  const BigNumber number{ASN1_INTEGER_to_BN(X509_get0_serialNumber(&certificate), nullptr)};
  char* digits = number ? BN_bn2hex(number.get()) : nullptr;
  std::string result = digits != nullptr ? digits : "";
  OPENSSL_free(digits);
  return result;
}

bool add_revocation(X509_CRL& list, X509& certificate, ASN1_TIME& now) {
  Revoked entry{X509_REVOKED_new()};
  // The setters copy what they are given.
  if (!entry || X509_REVOKED_set_serialNumber(entry.get(), X509_get_serialNumber(&certificate)) != 1
      || X509_REVOKED_set_revocationDate(entry.get(), &now) != 1 || X509_CRL_add0_revoked(&list, entry.get()) != 1)
    return false;
  (void)entry.release();
  return true;
}

/// The number by which lists of one authority are told apart; 0 without one.
std::int64_t number_of(X509_CRL& list) {
  const Integer number{static_cast<ASN1_INTEGER*>(X509_CRL_get_ext_d2i(&list, NID_crl_number, nullptr, nullptr))};
  std::int64_t value = 0;
  const bool known = number && ASN1_INTEGER_get_int64(&value, number.get()) == 1;
  ERR_clear_error();
  return known ? value : 0;
}

/// Sets that number: greater than that of the list `before`.
bool set_number(X509_CRL& list, X509_CRL* before, WallTime now) {
  const Integer number{ASN1_INTEGER_new()};
  // The time, so that a folder that was put back from an old copy does not count again what others have read.
  const std::int64_t least = before != nullptr ? number_of(*before) + 1 : 1;
  return number
         && ASN1_INTEGER_set_int64(number.get(),
                                   std::max<std::int64_t>(least, std::chrono::system_clock::to_time_t(now)))
                == 1
         && X509_CRL_add1_ext_i2d(&list, NID_crl_number, number.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

bool add_authority_id(X509_CRL& list, X509& authority) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &authority, nullptr, nullptr, &list, 0);
  const Extension id{X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier, "keyid:always")};
  return id && X509_CRL_add_ext(&list, id.get(), -1) == 1;
}

} // namespace

Result<Key> make_key() {
  Key key{EVP_EC_gen("P-256")};
  if (!key)
    return fail_openssl("a key");
  return key;
}

Result<Certificate> make_authority(EVP_PKEY& key, const CertificateLife& validity) {
  GPUACTORS_LET(made, make_certificate(key, validity));
  auto& authority = *made;
  std::array<unsigned char, EVP_MAX_MD_SIZE> id{};
  unsigned id_bytes = 0;
  // The name is derived from the key, so an authority made again from the same key is the same to peers that trust it.
  if (X509_pubkey_digest(&authority, EVP_sha256(), id.data(), &id_bytes) != 1
      || !set_common_name(authority, "gpuactors authority " + hex(id.data(), id_size / 2, ""))
      || X509_set_issuer_name(&authority, X509_get_subject_name(&authority)) != 1
      || !add_extension(authority, authority, NID_basic_constraints, "critical,CA:TRUE,pathlen:0")
      || !add_extension(authority, authority, NID_key_usage, "critical,keyCertSign,cRLSign")
      || !add_extension(authority, authority, NID_subject_key_identifier, "hash")
      || X509_sign(&authority, &key, EVP_sha256()) == 0)
    return fail_openssl("the certificate of an authority");
  return std::move(made);
}

Result<Certificate> make_node(const CertificateOwner& owner, EVP_PKEY& key, X509& authority, EVP_PKEY& authority_key,
                              const CertificateLife& validity) {
  GPUACTORS_LET(made, make_certificate(key, validity));
  auto& certificate = *made;
  const auto* uses = owner.role == CertificateRole::client ? "clientAuth" : "serverAuth,clientAuth";
  if (!set_common_name(certificate, owner.name)
      || X509_set_issuer_name(&certificate, X509_get_subject_name(&authority)) != 1
      || !add_extension(certificate, authority, NID_basic_constraints, "critical,CA:FALSE")
      || !add_extension(certificate, authority, NID_key_usage, "critical,digitalSignature")
      || !add_extension(certificate, authority, NID_ext_key_usage, uses)
      || !add_extension(certificate, authority, NID_subject_key_identifier, "hash")
      || !add_extension(certificate, authority, NID_authority_key_identifier, "keyid:always")
      || !add_hosts(certificate, owner.hosts) || X509_sign(&certificate, &authority_key, EVP_sha256()) == 0)
    return fail_openssl("the certificate of a node");
  return std::move(made);
}

Result<RevocationList> make_revocations(X509_CRL* before, const std::vector<X509*>& added, X509& authority,
                                        EVP_PKEY& authority_key, WallTime now) {
  constexpr long version_2 = 1; // counted from 0
  RevocationList list{before != nullptr ? X509_CRL_dup(before) : X509_CRL_new()};
  const Time time{ASN1_TIME_set(nullptr, std::chrono::system_clock::to_time_t(now))};
  const auto made = [&] {
    if (!list || !time || X509_CRL_set_version(list.get(), version_2) != 1
        || X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(&authority)) != 1
        // Good as long as the authority, also where a clock is behind: a list that is not good yet, or no longer, would
        // have everybody refused. The number tells which list is newer.
        || X509_CRL_set1_lastUpdate(list.get(), X509_get0_notBefore(&authority)) != 1
        || X509_CRL_set1_nextUpdate(list.get(), X509_get0_notAfter(&authority)) != 1)
      return false;
    while (X509_CRL_get_ext_count(list.get()) > 0)
      X509_EXTENSION_free(X509_CRL_delete_ext(list.get(), 0));
    return std::all_of(added.begin(), added.end(),
                       [&](X509* certificate) { return add_revocation(*list, *certificate, *time); })
           && add_authority_id(*list, authority) && set_number(*list, before, now) && X509_CRL_sort(list.get()) == 1
           && X509_CRL_sign(list.get(), &authority_key, EVP_sha256()) != 0;
  }();
  if (!made)
    return fail_openssl("a list of revoked certificates");
  return list;
}

Result<std::string> to_pem(EVP_PKEY& key) {
  return write_pem(
      [&](BIO* bio) { return PEM_write_bio_PKCS8PrivateKey(bio, &key, nullptr, nullptr, 0, nullptr, nullptr); });
}

Result<std::string> to_pem(X509& certificate) {
  return write_pem([&](BIO* bio) { return PEM_write_bio_X509(bio, &certificate); });
}

Result<std::string> to_pem(X509_CRL& list) {
  return write_pem([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, &list); });
}

Result<Key> key_from_pem(std::string_view pem, const std::filesystem::path& file) {
  const auto bio = reader(pem);
  Key key{PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr)};
  if (!key)
    return fail(Errc::invalid_argument,
                fmt::format("{} is no private key in PEM without a passphrase: {}", file.string(), last_error()));
  return key;
}

Result<Certificate> certificate_from_pem(std::string_view pem, const std::filesystem::path& file) {
  const auto bio = reader(pem);
  Certificate certificate{PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr)};
  if (!certificate)
    return fail(Errc::invalid_argument, fmt::format("{} is no certificate in PEM: {}", file.string(), last_error()));
  // TLS would use further certificates of the file, which are not checked.
  const Certificate second{PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr)};
  ERR_clear_error();
  if (second)
    return fail(Errc::invalid_argument,
                fmt::format("{} has more than one certificate: exactly one is expected", file.string()));
  return certificate;
}

Result<Authorities> authorities_from_pem(std::string_view pem, const std::filesystem::path& file) {
  const auto bio = reader(pem);
  Authorities result;
  while (Certificate certificate{PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr)}) {
    if (result.size() == limits::authorities_most)
      return fail(Errc::invalid_argument, fmt::format("{} has more than {} certificates of authorities", file.string(),
                                                      limits::authorities_most));
    result.push_back(std::move(certificate));
  }
  // At the end of the text there is no further one; anything else is a certificate that cannot be read.
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (result.empty() || !ended)
    return fail(Errc::invalid_argument, fmt::format("{} is no certificate in PEM: {}", file.string(), last_error()));
  ERR_clear_error();
  return result;
}

Result<RevocationLists> revocations_from_pem(std::string_view pem, const std::filesystem::path& file) {
  const auto bio = reader(pem);
  RevocationLists result;
  while (RevocationList list{PEM_read_bio_X509_CRL(bio.get(), nullptr, no_passphrase, nullptr)})
    result.push_back(std::move(list));
  if (const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE; result.empty() || !ended)
    return fail(Errc::invalid_argument,
                fmt::format("{} is no list of revoked certificates in PEM: {}", file.string(), last_error()));
  ERR_clear_error();
  return result;
}

RevocationLists newest_of(const Authorities& authorities, const RevocationLists& lists) {
  RevocationLists result;
  for (const auto& authority : authorities)
    if (auto* newest = list_of(*authority, lists); newest != nullptr && X509_CRL_up_ref(newest) == 1)
      result.emplace_back(newest);
  return result;
}

std::optional<WallTime> when_revoked(X509& certificate, const RevocationLists& lists) {
  for (const auto& list : lists)
    // Looks at the name of the issuer, too.
    if (X509_REVOKED* entry = nullptr; X509_CRL_get0_by_cert(list.get(), &entry, &certificate) == 1)
      return time_of(X509_REVOKED_get0_revocationDate(entry));
  return std::nullopt;
}

bool is_list_of(X509_CRL& list, X509& authority) {
  const bool is_signed = X509_CRL_verify(&list, X509_get0_pubkey(&authority)) == 1;
  ERR_clear_error();
  return is_signed;
}

X509* issuer_of(X509& certificate, const Authorities& authorities) {
  const auto found = std::find_if(authorities.begin(), authorities.end(),
                                  [&](const Certificate& authority) { return is_issued_by(certificate, *authority); });
  return found == authorities.end() ? nullptr : found->get();
}

X509_CRL* list_of(X509& authority, const RevocationLists& lists) {
  X509_CRL* newest = nullptr;
  for (const auto& list : lists)
    if (is_list_of(*list, authority) && (newest == nullptr || number_of(*list) >= number_of(*newest)))
      newest = list.get();
  return newest;
}

bool is_issued_by(X509& certificate, X509& authority) {
  const bool issued = X509_check_issued(&authority, &certificate) == X509_V_OK
                      && X509_verify(&certificate, X509_get0_pubkey(&authority)) == 1;
  ERR_clear_error();
  return issued;
}

CertificateRole role_of(X509& certificate) {
  // Without the extension, a certificate is good for every use.
  return (X509_get_extended_key_usage(&certificate) & XKU_SSL_SERVER) != 0 ? CertificateRole::node
                                                                           : CertificateRole::client;
}

std::string name_of(X509& certificate) {
  return common_name(X509_get_subject_name(&certificate));
}

CertificateInfo describe(X509& certificate, const std::filesystem::path& file) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  X509_digest(&certificate, EVP_sha256(), digest.data(), &size);
  return {file,
          name_of(certificate),
          common_name(X509_get_issuer_name(&certificate)),
          hosts_of(certificate),
          time_of(X509_get0_notBefore(&certificate)),
          time_of(X509_get0_notAfter(&certificate)),
          hex(digest.data(), size, ":"),
          role_of(certificate),
          X509_check_ca(&certificate) != 0,
          serial_of(certificate),
          {}};
}

bool belongs_to(EVP_PKEY& key, X509& certificate) {
  const bool fits = X509_check_private_key(&certificate, &key) == 1;
  ERR_clear_error();
  return fits;
}

std::string why_refused(X509& certificate, const Authorities& authorities) {
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    if (purpose == X509_PURPOSE_SSL_SERVER && role_of(certificate) == CertificateRole::client)
      continue;
    const Store store{X509_STORE_new()};
    const StoreContext context{X509_STORE_CTX_new()};
    if (!store || !context
        || !std::all_of(authorities.begin(), authorities.end(),
                        [&](const Certificate& each) { return X509_STORE_add_cert(store.get(), each.get()) == 1; })
        || X509_STORE_CTX_init(context.get(), store.get(), &certificate, nullptr) != 1
        || X509_STORE_CTX_set_purpose(context.get(), purpose) != 1)
      return last_error();
    X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_NO_CHECK_TIME);
    // As in handshakes: nobody stands between an authority and a peer.
    X509_VERIFY_PARAM_set_depth(X509_STORE_CTX_get0_param(context.get()), 0);
    const bool accepted = X509_verify_cert(context.get()) == 1;
    ERR_clear_error();
    if (!accepted)
      return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  }
  return {};
}

bool is_address(const std::string& host) {
  in6_addr parsed{};
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1 || inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

} // namespace gpuactors::detail
