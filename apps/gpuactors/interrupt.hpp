// Turns Ctrl-C into a request that a subcommand stops, in place of an end without warning.
#pragma once

#include <stop_token>
#include <thread>

namespace gpuactors::cli {

/// Requests a stop at Ctrl-C (SIGINT) or SIGTERM; the second signal ends the program, which may be waiting for a
/// broker. Uses a signal handler, since a thread that waits for signals does not get them if a library has started
/// other threads before main. One object at a time.
class Interrupt {
public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  /// Stopped by the first signal. Any thread.
  [[nodiscard]] std::stop_token token() const {
    return stop_.get_token();
  }

private:
  int event_;
  std::stop_source stop_;
  std::thread thread_;
};

} // namespace gpuactors::cli
