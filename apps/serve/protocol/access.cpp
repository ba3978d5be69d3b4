#include <apps/serve/protocol/access.hpp>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

constexpr std::size_t shortest_token = 16;
constexpr std::size_t longest_token = 1'024;

bool fits_header(std::string_view token) {
  return std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

Result<void> check_file(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    return fail(Errc::invalid_argument,
                fmt::format("the token file {} cannot be read: {}", file.string(), std::strerror(errno)));
  if (S_ISDIR(info.st_mode))
    return fail(Errc::invalid_argument, fmt::format("the token file {} is a folder", file.string()));
  if ((info.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0)
    return fail(Errc::invalid_argument,
                fmt::format("the token file {} may be read or written by others: chmod 600 it", file.string()));
  return {};
}

/// The host of "HOST:PORT" or "HOST"; of an IPv6 address what is in the brackets.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('['))
    return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.rfind(':'));
}

std::string_view trimmed(std::string_view line) {
  const auto first = line.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? "" : line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

} // namespace

Tokens::Digest Tokens::digest_of(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

Result<Tokens> Tokens::read(const std::filesystem::path& file) {
  GPUACTORS_TRY(check_file(file));
  std::ifstream in{file};
  if (!in)
    return fail(Errc::invalid_argument,
                fmt::format("the token file {} cannot be read: {}", file.string(), std::strerror(errno)));
  Tokens result;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    auto token = trimmed(line);
    if (token.empty() || token.front() == '#')
      continue;
    constexpr std::string_view asks = "ask ";
    const auto rights = token.starts_with(asks) ? Rights::ask : Rights::all;
    if (rights == Rights::ask)
      token = trimmed(token.substr(asks.size()));
    if (token.size() < shortest_token || token.size() > longest_token || !fits_header(token))
      return fail(Errc::invalid_argument,
                  fmt::format("line {} of the token file {} is no token: {} to {} characters without blanks are "
                              "expected, or \"ask\" and these",
                              number, file.string(), shortest_token, longest_token));
    result.known_.push_back({digest_of(token), rights});
  }
  if (!result.required())
    return fail(Errc::invalid_argument, fmt::format("the token file {} has no token", file.string()));
  return result;
}

Rights Tokens::rights_of(std::string_view authorization) const {
  if (!required())
    return Rights::all;
  constexpr std::string_view scheme = "bearer ";
  const auto is_letter_of = [](char given, char wanted) { return (given | 0x20) == (wanted | 0x20); };
  if (authorization.size() <= scheme.size()
      || !std::equal(scheme.begin(), scheme.end(), authorization.begin(),
                     [&](char wanted, char given) { return is_letter_of(given, wanted); }))
    return Rights::none;
  const auto given = digest_of(trimmed(authorization.substr(scheme.size())));
  auto rights = Rights::none;
  // All of them, and all bytes of each: a comparison that stops early tells where.
  for (const auto& known : known_)
    if (CRYPTO_memcmp(given.data(), known.digest.data(), given.size()) == 0)
      rights = std::max(rights, known.rights);
  return rights;
}

bool is_from_here(const gpuactors::Endpoint& listening, bool tls, std::string_view host,
                  const std::optional<std::string>& origin) {
  if (origin && *origin != fmt::format("{}://{}", tls ? "https" : "http", host))
    return false;
  // Beyond loopback it may have any name, and TLS, which a stranger's name does not fit.
  if (host.empty() || !gpuactors::is_loopback(listening.host))
    return true;
  return gpuactors::is_loopback(without_port(host));
}

Result<void> check_tls(const TlsFiles& files) {
  ERR_clear_error();
  const auto why = [] {
    const auto* reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return reason != nullptr ? reason : "it cannot be read";
  };
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_server_method()), &SSL_CTX_free};
  if (context == nullptr || SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    return fail(Errc::invalid_argument,
                fmt::format("the certificate {} cannot be used: {}", files.certificate.string(), why()));
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1
      || SSL_CTX_check_private_key(context.get()) != 1)
    return fail(Errc::invalid_argument, fmt::format("the key {} cannot be used with the certificate {}: {}",
                                                    files.key.string(), files.certificate.string(), why()));
  return {};
}

Result<void> check_exposure(const gpuactors::Endpoint& endpoint, bool tokens, bool tls) {
  if (gpuactors::is_loopback(endpoint.host) || tokens || tls)
    return {};
  return fail(Errc::invalid_argument,
              fmt::format("others could reach {}: give --token-file, or a certificate and key for TLS, or listen on "
                          "127.0.0.1",
                          to_string(endpoint)));
}

} // namespace serve
