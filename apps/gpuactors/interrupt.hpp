// Ctrl-C as something that a subcommand is asked for, in place of an end without warning.
#pragma once

#include <stop_token>
#include <thread>

namespace gpuactors::cli {

/// Asks for an end when Ctrl-C is pressed, or SIGTERM comes; the second time it ends the program, which may be waiting
/// for a broker. A handler, since a thread that waits for signals does not get them where a library has started others
/// before main. One at a time.
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
