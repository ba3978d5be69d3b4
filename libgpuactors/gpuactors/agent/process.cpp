#include <gpuactors/agent/process.hpp>
#include <gpuactors/base/files.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace gpuactors {

namespace {

/// " (SIGKILL)"; empty for a signal without a name, such as a real-time signal.
std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? std::string{} : fmt::format(" (SIG{})", name);
}

} // namespace

std::string to_string(const ExitStatus& status) {
  switch (status.kind) {
  case ExitStatus::Kind::exited:
    return fmt::format("ended with exit code {}", status.number);
  case ExitStatus::Kind::signalled:
    return fmt::format("was ended by signal {}{}{}", status.number, signal_name(status.number),
                       status.core ? " and left a core dump" : "");
  case ExitStatus::Kind::unknown:
    break;
  }
  return "ended, and how is not known: something else in its parent took its exit status";
}

void die_with_parent(pid_t parent) noexcept {
  // In this order: the second call notices a parent that ended before the first took effect.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::raise(SIGKILL);
}

void die_first_without_memory() noexcept {
  // To raise it needs no right. With the most that there is, workers come before all else, and among them the largest.
  const detail::Descriptor file{::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)};
  if (file)
    static_cast<void>(detail::write_all(file.get(), "1000"));
}

} // namespace gpuactors
