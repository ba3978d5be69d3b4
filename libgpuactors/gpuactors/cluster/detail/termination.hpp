// Termination: how a daemon learns that it has to end. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/signal_counter.hpp>

#include <csignal>

namespace gpuactors::detail {

/// Catches SIGTERM and SIGINT, each of them something that `wait` returns for, and SIGPIPE, which changes nothing: the
/// reader of a daemon's output may go away, and that must not end the work that the process is responsible for. SIGCHLD
/// is not ignored while it lives, as the process could not learn how its children end. Raises the process's limit of
/// descriptors permanently. One object at a time in a process.
class Termination {
public:
  Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;
  /// What the signals did before is what they do again.
  ~Termination();

  /// Returns when a signal has come.
  void wait();

  /// Waits at most for `time`. @returns whether a signal has come.
  bool wait_for(Duration time);

  /// Waits until a signal has come or the descriptor is readable. @returns whether a signal has come.
  bool wait_or(int descriptor);

private:
  bool wait_until(TimePoint end, int descriptor);

  SignalCounter signals_{SignalCounter::Later::counted};
  struct sigaction pipe_before_ {};
  struct sigaction child_before_ {};
};

} // namespace gpuactors::detail
