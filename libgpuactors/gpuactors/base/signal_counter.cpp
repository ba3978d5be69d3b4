#include <gpuactors/base/signal_counter.hpp>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace gpuactors::detail {

namespace {

// Where signals are counted, and in which process. It is there until the process ends: a handler may still run on
// another thread when nobody waits any more.
std::atomic<int> counter{-1};
std::atomic<pid_t> owner{0};
static_assert(std::atomic<int>::is_always_lock_free, "a handler of signals may use it");

// What later signals do, for the handler that catches the first one.
struct Before {
  struct sigaction terminate {};
  struct sigaction interrupt {};
} before;

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

extern "C" void count_first_signal(int signal) {
  ::sigaction(SIGTERM, &before.terminate, nullptr);
  ::sigaction(SIGINT, &before.interrupt, nullptr);
  count_signal(signal);
}

/// @returns false if the process cannot open it.
bool open_counter() {
  // A child that was forked has one of its own.
  if (counter < 0 || owner != ::getpid())
    counter = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  owner = ::getpid();
  return counter >= 0;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

} // namespace

SignalCounter::SignalCounter(Later later) {
  ::sigaction(SIGTERM, nullptr, &terminate_before_);
  ::sigaction(SIGINT, nullptr, &interrupt_before_);
  before = {terminate_before_, interrupt_before_};
  if (open_counter()) {
    auto* const handler = later == Later::counted ? count_signal : count_first_signal;
    handle(SIGTERM, handler);
    if (interrupt_before_.sa_handler != SIG_IGN)
      handle(SIGINT, handler);
  }
  sigset_t caught;
  sigemptyset(&caught);
  sigaddset(&caught, SIGTERM);
  sigaddset(&caught, SIGINT);
  ::pthread_sigmask(SIG_UNBLOCK, &caught, &mask_before_);
}

SignalCounter::~SignalCounter() {
  if (std::this_thread::get_id() == thread_)
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  ::sigaction(SIGINT, &interrupt_before_, nullptr);
  ::sigaction(SIGTERM, &terminate_before_, nullptr);
  // In a child that was forked, what has come is the parent's.
  while (::getpid() == owner && take())
    continue;
}

int SignalCounter::descriptor() noexcept {
  return counter;
}

bool SignalCounter::take() noexcept {
  std::uint64_t one = 0;
  return ::read(counter, &one, sizeof(one)) == sizeof(one);
}

} // namespace gpuactors::detail
