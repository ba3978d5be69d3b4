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

/// Where signals are counted; -1: nowhere.
std::atomic<int> counter{-1};
static_assert(std::atomic<int>::is_always_lock_free, "a handler of signals may use it");

extern "C" void count_signal(int) {
  const auto error = errno;
  constexpr std::uint64_t one = 1;
  if (const int file = counter; file >= 0)
    static_cast<void>(::write(file, &one, sizeof(one)));
  errno = error;
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

Termination::Termination() : signals_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
  counter = signals_.get();
  handle(SIGTERM, count_signal, terminate_before_);
  handle(SIGINT, count_signal, interrupt_before_);
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
  counter = -1;
}

void Termination::wait() {
  while (!wait_for(std::chrono::hours{1}))
    continue;
}

bool Termination::wait_for(Duration time) {
  const auto end = deadline_after(Clock::now(), time);
  for (;;) {
    std::uint64_t one = 0;
    if (::read(signals_.get(), &one, sizeof(one)) == sizeof(one))
      return true;
    const auto left = std::max<Duration>(Duration::zero(), end - Clock::now());
    if (left == Duration::zero())
      return false;
    pollfd polled{signals_.get(), POLLIN, 0};
    // A signal that another thread has caught ends no wait here; the counter does.
    ::poll(&polled, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }
}

} // namespace gpuactors::detail
