// StopSignals: SIGTERM and SIGINT as a request to stop, for services that end in order.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <memory>
#include <stop_token>

namespace gpuactors {

/// Turns the first SIGTERM or SIGINT (Ctrl-C) of the process into a request to stop, while this object lives. The next
/// signal ends the process as usual, so that nobody has to wait for an end that takes too long. Programs that the
/// process starts get the signals as usual. If the process has no descriptor or thread left, signals end it as usual.
/// One object at a time, made on any thread.
///
///   gpuactors::StopSignals signals;
///   GPUACTORS_LET(service, cluster.spawn("service", {}, {.gpus = 0.5, .max_restarts = -1}));
///   signals.wait();
///   return cluster.kill(service); // its destructor runs; the share is free
class StopSignals {
public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// Returns whether a signal has come. Any thread.
  [[nodiscard]] bool came() const noexcept {
    return stop_.stop_requested();
  }

  /// Waits until a signal has come. Any thread.
  void wait() const;

  /// Waits at most `time`. @returns whether a signal has come. Any thread.
  bool wait_for(Duration time) const;

  /// Returns a token that the first signal stops, for `Cluster::logs` and other work of the program. Any thread.
  [[nodiscard]] std::stop_token token() const {
    return stop_.get_token();
  }

private:
  struct Watcher;

  std::stop_source stop_;
  std::unique_ptr<Watcher> watcher_;
};

} // namespace gpuactors
