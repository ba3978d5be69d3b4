#include "child.hpp"

#include "leftovers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace gpuactors::bench {

namespace {

/// Behind it come the parent's number and what the child is to do.
constexpr auto child_option = "--child-of";

[[noreturn]] void give_up(const std::string& what) {
  fmt::print(stderr, "gpuactors-bench: {}\n", what);
  std::exit(1);
}

sigset_t ends() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

} // namespace

Child::Child(std::vector<std::string> arguments) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    give_up(fmt::format("no pipe: {}", std::strerror(errno)));
  output_ = pipe[0];
  // Its name, not the link: below valgrind that is another program, and only who reads it learns the right one.
  std::error_code unknown;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  std::string child_of = child_option;
  std::string parent = std::to_string(::getpid());
  std::vector<char*> argv{program.data(), child_of.data(), parent.data()};
  for (auto& argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  // This process waits for signals in a thread; what it starts ends by them as usual.
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const auto code = ::posix_spawn(&pid_, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  if (code != 0)
    give_up(fmt::format("{} could not be started: {}", arguments.front(), std::strerror(code)));
  keep_process(pid_);
}

Child::~Child() {
  end_process(pid_);
  ::close(output_);
}

std::string Child::line() {
  for (;;) {
    if (const auto end = text_.find('\n'); end != std::string::npos) {
      auto result = text_.substr(0, end);
      text_.erase(0, end + 1);
      return result;
    }
    std::array<char, 512> part{};
    const auto size = ::read(output_, part.data(), part.size());
    if (size > 0)
      text_.append(part.data(), static_cast<std::size_t>(size));
    else if (size == 0 || errno != EINTR)
      give_up("a process of the benchmark ended before it had an answer");
  }
}

std::optional<std::vector<std::string>> begin_child(std::vector<std::string> arguments) {
  if (arguments.size() < 3 || arguments[0] != child_option)
    return std::nullopt;
  // In this order: the second call notices a parent that ended before the first took effect. Which it was is told,
  // since in a container it may be process 1, to which the children of the dead go elsewhere.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (std::to_string(::getppid()) != arguments[1])
    std::_Exit(1);
  arguments.erase(arguments.begin(), arguments.begin() + 2);
  return arguments;
}

void wait_for_end() {
  const auto set = ends();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  int signal = 0;
  ::sigwait(&set, &signal);
}

} // namespace gpuactors::bench
