#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/detail/termination.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

namespace gpuactors::detail {

namespace {

/// Where signals are counted, and in which process. It is there until the process ends: a handler may still run on
/// another thread when nobody waits any more.
std::atomic<int> counter{-1};
std::atomic<pid_t> owner{0};
static_assert(std::atomic<int>::is_always_lock_free, "a handler of signals may use it");

extern "C" void count_signal(int signal) {
  const auto error = errno;
  constexpr std::uint64_t one = 1;
  if (::getpid() == owner) {
    static_cast<void>(::write(counter, &one, sizeof(one)));
  } else {
    // A child that has not started its program yet, or never will: the signal is for it alone.
    std::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  errno = error;
}

/// @returns false if the process cannot open it.
bool open_counter() {
  if (counter < 0)
    counter = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  owner = ::getpid();
  return counter >= 0;
}

extern "C" void drop_signal(int) {
  // nop
}

void handle(int signal, void (*handler)(int), struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, &before);
}

} // namespace

Termination::Termination() {
  // Without the counter, signals end the process as they always do.
  const bool counts = open_counter();
  handle(SIGTERM, counts ? count_signal : SIG_DFL, terminate_before_);
  handle(SIGINT, counts ? count_signal : SIG_DFL, interrupt_before_);
  if (interrupt_before_.sa_handler == SIG_IGN)
    ::sigaction(SIGINT, &interrupt_before_, nullptr);
  // The reader of this process's output may go away; that must not end the work that the process is responsible for.
  handle(SIGPIPE, drop_signal, pipe_before_);
  sigset_t caught;
  sigemptyset(&caught);
  sigaddset(&caught, SIGTERM);
  sigaddset(&caught, SIGINT);
  ::pthread_sigmask(SIG_UNBLOCK, &caught, &mask_before_);
  // Each connection takes a descriptor, and many systems allow a process 1,024 unless it asks for more.
  constexpr rlim_t wanted = 16 * limits::links;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < std::min(wanted, files.rlim_max)) {
    files.rlim_cur = std::min(wanted, files.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

Termination::~Termination() {
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigaction(SIGINT, &interrupt_before_, nullptr);
  ::sigaction(SIGTERM, &terminate_before_, nullptr);
  while (wait_for(Duration::zero()))
    continue;
}

void Termination::wait() {
  while (!wait_for(std::chrono::hours{1}))
    continue;
}

bool Termination::wait_for(Duration time) {
  const auto end = deadline_after(Clock::now(), time);
  for (;;) {
    std::uint64_t one = 0;
    if (::read(counter, &one, sizeof(one)) == sizeof(one))
      return true;
    const auto left = std::max<Duration>(Duration::zero(), end - Clock::now());
    if (left == Duration::zero())
      return false;
    pollfd polled{counter, POLLIN, 0};
    // A signal that another thread has caught ends no wait here; the counter does.
    ::poll(&polled, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }
}

} // namespace gpuactors::detail
