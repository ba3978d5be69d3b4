// What the tests of ProcessTable run: process_probe descriptors|signals|parent|child PID|wait
#include <gpuactors/agent/process_table.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace gpuactors;

namespace {

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void wait_for_a_signal() {
  while (true)
    ::pause();
}

int print_descriptors() {
  const auto most = static_cast<int>(::sysconf(_SC_OPEN_MAX));
  for (int i = 0; i < most; ++i)
    if (::fcntl(i, F_GETFD) != -1)
      say(std::to_string(i));
  return 0;
}

int print_signals() {
  sigset_t blocked;
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  for (int i = 1; i < NSIG; ++i) {
    struct sigaction action {};
    if (::sigismember(&blocked, i) == 1)
      say("blocked " + std::to_string(i));
    if (::sigaction(i, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      say("ignored " + std::to_string(i));
  }
  say(::getpgrp() == ::getpid() ? "own group" : "group of another");
  return 0;
}

/// Starts a child that ends with it, says the child's pid and line once that one has seen to it, and waits.
int be_parent(const char* self) {
  auto table = ProcessTable::make({[](const Process& process, OutputStream, std::string_view text, LogTime) {
                                     say(std::to_string(process.pid) + ' ' + std::string{text});
                                   },
                                   {}});
  if (!table || !(*table)->start({self, {"child", std::to_string(::getpid())}, {}, {}, {}}))
    return 1;
  wait_for_a_signal();
}

} // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "descriptors")
    return print_descriptors();
  if (what == "signals")
    return print_signals();
  if (what == "parent")
    return be_parent(argv[0]);
  if (what == "child" && argc > 2) {
    group_dies_with_parent(std::atoi(argv[2])); // NOLINT(cert-err34-c): the tests give a number
    const auto other = ::fork();
    if (other == 0)
      wait_for_a_signal();
    say(std::to_string(other));
    wait_for_a_signal();
  }
  if (what != "wait")
    return 2;
  say("ready");
  wait_for_a_signal();
}
