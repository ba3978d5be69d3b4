#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/detail/termination.hpp>

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

namespace gpuactors::detail {

namespace {

extern "C" void drop_signal(int) {
  // nop
}

/// Each connection takes a descriptor, and many systems allow a process 1,024 unless it asks for more.
void raise_limit_of_descriptors() {
  constexpr rlim_t wanted = 16 * limits::links;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < std::min(wanted, files.rlim_max)) {
    files.rlim_cur = std::min(wanted, files.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

} // namespace

Termination::Termination() {
  // A handler, and not SIG_IGN, which programs that the daemon starts would keep.
  struct sigaction action {};
  action.sa_handler = drop_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &action, &pipe_before_);
  // What is ignored stays so when a program is started.
  ::sigaction(SIGCHLD, nullptr, &child_before_);
  action.sa_handler = SIG_DFL;
  if (child_before_.sa_handler == SIG_IGN)
    ::sigaction(SIGCHLD, &action, nullptr);
  raise_limit_of_descriptors();
}

Termination::~Termination() {
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigaction(SIGCHLD, &child_before_, nullptr);
}

void Termination::wait() {
  while (!wait_for(std::chrono::hours{1}))
    continue;
}

bool Termination::wait_for(Duration time) {
  return wait_until(deadline_after(Clock::now(), time), -1);
}

bool Termination::wait_or(int descriptor) {
  return wait_until(TimePoint::max(), descriptor);
}

bool Termination::wait_until(TimePoint end, int descriptor) {
  constexpr Duration longest = std::chrono::hours{1};
  for (;;) {
    if (signals_.take())
      return true;
    const auto left = std::clamp<Duration>(end - Clock::now(), Duration::zero(), longest);
    if (left == Duration::zero())
      return false;
    std::array<pollfd, 2> polled{{{SignalCounter::descriptor(), POLLIN, 0}, {descriptor, POLLIN, 0}}};
    // A signal that another thread has caught ends no wait here; the counter does. A descriptor below 0 is skipped.
    ::poll(polled.data(), polled.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    if ((polled[1].revents & POLLIN) != 0)
      return signals_.take();
  }
}

} // namespace gpuactors::detail
