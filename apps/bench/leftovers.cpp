#include "leftovers.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

namespace gpuactors::bench {

namespace {

/// Held while something is taken away: who ends the process meanwhile waits for that.
struct Leftovers {
  std::mutex mutex;
  std::set<pid_t> processes;
  std::set<std::string> folders;
  bool ended_by_signal = false;
};

/// Never destroyed: threads may still use it at `exit`.
Leftovers& leftovers() {
  static auto* const one = new Leftovers;
  return *one;
}

/// Waits so long for a process that was asked to end, and does without its consent after that.
void wait_for(pid_t pid, std::chrono::seconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  bool killed = false;
  for (;;) {
    if (const auto ended = ::waitpid(pid, nullptr, WNOHANG); ended == pid || (ended < 0 && errno != EINTR))
      return;
    if (!killed && std::chrono::steady_clock::now() > until)
      killed = ::kill(pid, SIGKILL) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

/// With the lock held.
void take_away(Leftovers& all) {
  for (const auto pid : all.processes)
    ::kill(pid, SIGTERM);
  for (const auto pid : all.processes)
    wait_for(pid, std::chrono::seconds{5});
  all.processes.clear();
  std::error_code ignored;
  for (const auto& folder : all.folders)
    std::filesystem::remove_all(folder, ignored);
  all.folders.clear();
}

void at_exit() {
  auto& all = leftovers();
  std::unique_lock lock{all.mutex};
  take_away(all);
  while (all.ended_by_signal) { // which is about to end this process, with a code of its own
    lock.unlock();
    ::pause();
    lock.lock();
  }
}

/// The thread that the signals come to.
void wait_for_signal(sigset_t signals) {
  int signal = 0;
  ::sigwait(&signals, &signal);
  auto& all = leftovers();
  {
    const std::lock_guard lock{all.mutex};
    all.ended_by_signal = true;
    take_away(all);
  }
  ::signal(signal, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::raise(signal);
}

} // namespace

void clean_up_at_end() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  (void)std::atexit(at_exit);
  std::thread{wait_for_signal, signals}.detach();
}

void keep_process(pid_t pid) {
  auto& all = leftovers();
  const std::lock_guard lock{all.mutex};
  all.processes.insert(pid);
}

void end_process(pid_t pid) {
  auto& all = leftovers();
  const std::lock_guard lock{all.mutex};
  if (all.processes.erase(pid) == 0)
    return;
  ::kill(pid, SIGTERM);
  wait_for(pid, std::chrono::seconds{60});
}

void keep_folder(const std::string& path) {
  auto& all = leftovers();
  const std::lock_guard lock{all.mutex};
  all.folders.insert(path);
}

void remove_folder(const std::string& path) {
  auto& all = leftovers();
  const std::lock_guard lock{all.mutex};
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  all.folders.erase(path);
}

} // namespace gpuactors::bench
