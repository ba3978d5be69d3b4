// Caller: who sent a message, and what they may do.
#pragma once

#include <string>

namespace gpuactors {

/// Who is at the other end of a connection, according to their certificate.
struct Caller {
  /// The name in the certificate. Empty: somebody in this process, or in a cluster without certificates.
  std::string name;
  /// Whether they may serve and administer the cluster; otherwise, they may only use it.
  bool administers = true;

  friend bool operator==(const Caller&, const Caller&) = default;
};

} // namespace gpuactors
