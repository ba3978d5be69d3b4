// SIGINT and SIGTERM as something to ask for, in place of an end without warning.
#pragma once

#include <csignal>

namespace serve {

/// From its construction on, SIGINT and SIGTERM wait until they are asked for, in this thread and those that it starts
/// later: make it before any other thread runs. After the first one, the next ends the process as usual.
class StopSignals {
public:
  StopSignals() noexcept {
    ::sigemptyset(&signals_);
    ::sigaddset(&signals_, SIGINT);
    ::sigaddset(&signals_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }

  /// Whether one has come; does not wait.
  [[nodiscard]] bool came() noexcept {
    const ::timespec no_time{};
    if (!came_ && ::sigtimedwait(&signals_, nullptr, &no_time) > 0)
      accept();
    return came_;
  }

  /// Waits for one.
  void wait() noexcept {
    int number = 0;
    while (!came_)
      if (::sigwait(&signals_, &number) == 0)
        accept();
  }

private:
  void accept() noexcept {
    came_ = true;
    ::pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  }

  ::sigset_t signals_{};
  bool came_ = false;
};

} // namespace serve
