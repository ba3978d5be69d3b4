// A TLS handshake in memory between two holders of certificates, as CAF's OpenSSL module would do it over a socket.
#pragma once

#include <filesystem>
#include <string>

namespace gpuactors::test {

/// The files that one side uses; it shows no certificate when `certificate` is empty.
struct TlsSide {
  std::filesystem::path authority;
  std::filesystem::path certificate;
  std::filesystem::path key;
};

/// Lets both sides talk until they agree, one refuses, or neither has anything more to say. Each demands a certificate
/// that its authority signed; the client also that the server's is for `host`.
/// @returns "" when both have agreed, else why not.
std::string handshake(const TlsSide& server, const TlsSide& client, const std::string& host = "localhost");

} // namespace gpuactors::test
