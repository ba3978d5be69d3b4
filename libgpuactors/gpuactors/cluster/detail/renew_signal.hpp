// RenewSignal: SIGUSR1 of a node, which asks it to start its programs anew. Internal to the cluster layer.
#pragma once

#include <csignal>

namespace gpuactors::detail {

/// Catches SIGUSR1 while it lives. One object at a time in a process.
class RenewSignal {
public:
  RenewSignal();
  RenewSignal(const RenewSignal&) = delete;
  RenewSignal& operator=(const RenewSignal&) = delete;
  /// What the signal did before is what it does again.
  ~RenewSignal();

  /// Returns the file descriptor that is readable when the signal has come; -1 if the process has none left: the signal
  /// then does what it did before.
  [[nodiscard]] static int descriptor() noexcept;

  /// Takes all signals that have come. @returns whether there was one.
  bool take() noexcept;

private:
  struct sigaction before_ {};
  sigset_t mask_before_{};
};

} // namespace gpuactors::detail
