// A cluster of processes to measure, a client of it in this process, and plain CAF between two processes beside it.
#pragma once

#include "child.hpp"
#include "harness.hpp"

#include <gpuactors/gpuactors.hpp>

#include <string>

namespace gpuactors::bench {

/// A folder for certificates, gone with the object.
class CertificatesHome {
public:
  CertificatesHome();
  CertificatesHome(const CertificatesHome&) = delete;
  CertificatesHome& operator=(const CertificatesHome&) = delete;
  ~CertificatesHome();

  [[nodiscard]] const std::string& path() const noexcept {
    return path_;
  }

private:
  std::string path_;
};

/// The cluster, the client and a server of plain CAF, all with TLS or all without.
class Remote {
public:
  explicit Remote(bool tls);

  [[nodiscard]] Cluster& cluster() noexcept {
    return cluster_;
  }

  /// The folder with its certificates; empty without TLS.
  [[nodiscard]] const std::string& certificates() const noexcept {
    return certificates_;
  }

  /// Microseconds a request of plain CAF.
  [[nodiscard]] double floor(int count, int flying) const;

private:
  [[nodiscard]] Cluster connect() const;

  CertificatesHome home_;
  std::string certificates_;
  Child up_;
  std::string address_;
  Cluster cluster_;
  Child floor_;
  std::string floor_address_;
};

} // namespace gpuactors::bench
