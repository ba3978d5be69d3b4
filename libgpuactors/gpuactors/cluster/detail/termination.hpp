// Termination: how a daemon learns that it has to end. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <csignal>

namespace gpuactors::detail {

/// Catches SIGTERM and SIGINT, so that `wait` can wait for them, and SIGPIPE, which changes nothing. By handlers:
/// unlike blocked or ignored signals, those do not pass to programs that tasks and actors start. SIGINT stays ignored
/// where it was, as in background jobs of a shell. Raises the process's limit of descriptors permanently. One object at
/// a time in a process.
class Termination {
public:
  Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;
  /// What the signals did before is what they do again. Those that came and were not waited for are dropped.
  ~Termination();

  /// Returns when a signal has come.
  void wait();

  /// Waits at most for `time`. @returns whether a signal has come.
  bool wait_for(Duration time);

private:
  struct sigaction terminate_before_ {};
  struct sigaction interrupt_before_ {};
  struct sigaction pipe_before_ {};
  sigset_t mask_before_{};
};

} // namespace gpuactors::detail
