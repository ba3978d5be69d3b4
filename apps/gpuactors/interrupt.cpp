// The signal handler, and the thread that it wakes.
#include "interrupt.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace gpuactors::cli {

namespace {

// The eventfd that the signal handler writes to, because a handler may do little else; and whether a signal has come.
std::atomic<int> interrupt_event{-1};
std::atomic<bool> interrupted{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

constexpr int exit_interrupted = 128 + SIGINT;

void on_interrupt(int /*signal*/) {
  if (interrupted.exchange(true))
    std::_Exit(exit_interrupted);
  const int before = errno;
  ::eventfd_write(interrupt_event.load(), 1);
  errno = before;
}

} // namespace

Interrupt::Interrupt() : event_(::eventfd(0, EFD_CLOEXEC)) {
  if (event_ < 0)
    return; // no handler: Ctrl-C ends the program at once
  interrupt_event = event_;
  thread_ = std::thread{[this] {
    eventfd_t count = 0;
    while (::eventfd_read(event_, &count) != 0 && errno == EINTR) {
      // again
    }
    stop_.request_stop();
  }};
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

Interrupt::~Interrupt() {
  if (event_ < 0)
    return;
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::eventfd_write(event_, 1);
  thread_.join();
  interrupt_event = -1;
  ::close(event_);
}

} // namespace gpuactors::cli
