#include <gpuactors/agent/process.hpp>
#include <gpuactors/base/files.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>

namespace gpuactors {

namespace {

/// " (SIGKILL)"; empty for a signal without a name, such as a real-time signal.
std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? std::string{} : fmt::format(" (SIG{})", name);
}

/// For `PR_SET_PDEATHSIG`: programs hardly use it, and where they do not know it, it ends them.
int signal_of_parents_death() {
  return SIGRTMAX;
}

extern "C" void end_with_parent(int) {
  end_own_group();
}

/// Starts a thread that has a stopped process go on when its parent ends: it would run no handler. Each thread has a
/// signal of its own for that.
bool start_continuing() {
  std::promise<void> ready;
  try {
    std::thread{[&ready] {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
      ::prctl(PR_SET_PDEATHSIG, SIGCONT);
      ready.set_value();
      while (true)
        ::pause();
    }}.detach();
  } catch (const std::system_error&) { // no thread can be created
    return false;
  }
  ready.get_future().wait();
  return true;
}

/// Says why a process that was started by another one than its parent ends. Not if that one is gone: nobody would read
/// it.
void say_whose_child(pid_t parent) {
  if (::kill(parent, 0) != 0 && errno == ESRCH)
    return;
  std::array<char, 320> line{};
  const int size = std::snprintf(line.data(), line.size(),
                                 "this process ends, because process %d has started it, and not its node (process %d): "
                                 "it would not end with the node. A script or tool that a node has as its program "
                                 "starts the real one in its own place, by exec\n",
                                 ::getppid(), parent);
  if (size > 0)
    static_cast<void>(detail::write_all(STDERR_FILENO, {line.data(), static_cast<std::size_t>(size)}));
}

/// Has the process end by this signal when its parent does; at once if that is gone.
void end_by(int signal, pid_t parent) {
  // In this order: the second call notices a parent that ended before the first took effect.
  ::prctl(PR_SET_PDEATHSIG, signal);
  if (::getppid() == parent)
    return;
  say_whose_child(parent);
  end_own_group();
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
  end_by(SIGKILL, parent);
}

void group_dies_with_parent(pid_t parent) noexcept {
  // SIGKILL would end this process alone, and not what it has started.
  struct sigaction action {};
  action.sa_handler = end_with_parent;
  const bool is_caught = ::sigaction(signal_of_parents_death(), &action, nullptr) == 0 && start_continuing();
  end_by(is_caught ? signal_of_parents_death() : SIGKILL, parent);
}

void end_own_group() noexcept {
  // The process's own, and not that of whoever has started it.
  if (::getpgrp() == ::getpid())
    ::kill(0, SIGKILL);
  ::kill(::getpid(), SIGKILL);
}

void die_first_without_memory() noexcept {
  // To raise it needs no right. With the most that there is, workers come before all else, and among them the largest.
  const detail::Descriptor file{::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)};
  if (file)
    static_cast<void>(detail::write_all(file.get(), "1000"));
}

} // namespace gpuactors
