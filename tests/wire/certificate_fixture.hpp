// A temporary folder, a clock that is set by hand, and certificates in it.
#pragma once

#include "tls_pair.hpp"

#include <gpuactors/wire/certificates.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace gpuactors::test {

/// Certificates of the year 2030, when nobody runs these tests.
struct CertificateFixture {
  using Days = std::chrono::duration<int, std::ratio<86'400>>;

  TemporaryFolder folder;
  WallTime now = std::chrono::system_clock::from_time_t(1'893'456'000); // 2030-01-01 00:00 UTC

  CertificateFolder certs(const std::string& name = "certs") {
    return CertificateFolder{folder / name, [this] { return now; }};
  }
};

/// The text of the error with which something was refused.
template <class T>
std::string refusal_of(const Result<T>& result, Errc code) {
  REQUIRE_FALSE(result.has_value());
  CHECK(to_string(result.error().code()) == to_string(code));
  return result.error().message();
}

inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream{file, std::ios::binary}.rdbuf();
  return text.str();
}

inline unsigned mode_of(const std::filesystem::path& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

inline TlsSide side_of(const CertificateFiles& files) {
  return {files.authority, files.certificate, files.key};
}

} // namespace gpuactors::test
