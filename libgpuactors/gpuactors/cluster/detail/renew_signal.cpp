#include <gpuactors/cluster/detail/renew_signal.hpp>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace gpuactors::detail {

namespace {

// It is there until the process ends: a handler may still run on another thread when nobody waits any more.
std::atomic<int> renewals{-1};
static_assert(std::atomic<int>::is_always_lock_free, "a handler of signals may use it");

extern "C" void note_renewal(int) {
  const auto error = errno;
  constexpr std::uint64_t one = 1;
  static_cast<void>(::write(renewals, &one, sizeof(one)));
  errno = error;
}

} // namespace

RenewSignal::RenewSignal() {
  if (renewals < 0)
    renewals = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  // A handler: unlike a blocked signal, it does not pass to programs that the process starts.
  struct sigaction action {};
  action.sa_handler = note_renewal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, renewals < 0 ? nullptr : &action, &before_);
  sigset_t caught;
  sigemptyset(&caught);
  sigaddset(&caught, SIGUSR1);
  ::pthread_sigmask(SIG_UNBLOCK, &caught, &mask_before_);
}

RenewSignal::~RenewSignal() {
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  ::sigaction(SIGUSR1, &before_, nullptr);
  take();
}

int RenewSignal::descriptor() noexcept {
  return renewals;
}

bool RenewSignal::take() noexcept {
  std::uint64_t count = 0;
  return ::read(renewals, &count, sizeof(count)) == sizeof(count);
}

} // namespace gpuactors::detail
