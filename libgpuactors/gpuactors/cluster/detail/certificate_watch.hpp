// CertificateWatch: tells a control actor when the certificate of its process ends. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/detail/daemon_core.hpp>

#include <memory>

namespace gpuactors::detail {

/// Looks at the certificate from time to time, so also at those of a process to which nobody connects, and posts to the
/// actor when the last one is another than before. In plaintext there is nothing to look at.
class CertificateWatch {
public:
  /// @param actor takes `HolderUsage`.
  CertificateWatch(DaemonCore& core, caf::strong_actor_ptr actor);
  CertificateWatch(const CertificateWatch&) = delete;
  CertificateWatch& operator=(const CertificateWatch&) = delete;
  /// Afterwards, nothing here uses the core.
  ~CertificateWatch();

private:
  class Rounds;

  std::shared_ptr<Rounds> rounds_;
};

} // namespace gpuactors::detail
