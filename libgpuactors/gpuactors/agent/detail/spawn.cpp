#include "spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

namespace gpuactors::detail {

namespace {

/// The actions and attributes that posix_spawn applies in the child before exec.
class Preparation {
public:
  Preparation() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }

  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  ~Preparation() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  /// @returns false when out of memory.
  bool prepare(int out, int err) {
    sigset_t all;
    sigset_t none;
    ::sigfillset(&all);
    ::sigemptyset(&none);
    constexpr short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    return ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0
           && ::posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO) == 0
           && ::posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO) == 0
           // Libraries, including drivers, open descriptors without O_CLOEXEC.
           && ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1) == 0
           && ::posix_spawnattr_setpgroup(&attributes_, 0) == 0
           && ::posix_spawnattr_setsigdefault(&attributes_, &all) == 0
           && ::posix_spawnattr_setsigmask(&attributes_, &none) == 0
           && ::posix_spawnattr_setflags(&attributes_, flags) == 0;
  }

  [[nodiscard]] const posix_spawn_file_actions_t* actions() const noexcept {
    return &actions_;
  }

  [[nodiscard]] const posix_spawnattr_t* attributes() const noexcept {
    return &attributes_;
  }

private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

/// Moves a descriptor above the standard ones, which the child's dup2 calls overwrite one after the other.
Descriptor above_standard(Descriptor descriptor) {
  if (descriptor.get() > STDERR_FILENO)
    return descriptor;
  return Descriptor{::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1)};
}

Failure fail_start(const Command& command, int error) {
  const auto path = command.path.string();
  const auto why = [&](Errc code, std::string_view what) {
    return fail(code, fmt::format("{} cannot be started: {}{}", path, errno_text(error), what));
  };
  switch (error) {
  case ENOENT:
    if (::access(path.c_str(), F_OK) == 0)
      return why(Errc::invalid_argument, "; the file is there, but the interpreter that it names is not");
    return why(Errc::invalid_argument, "; a program's full path is expected, PATH is not searched");
  case EACCES:
    return why(Errc::invalid_argument, "; a file that this user may execute is expected (chmod +x)");
  case ENOEXEC:
    return why(Errc::invalid_argument, "; a program for this machine, or a script that begins with #!, is expected");
  case E2BIG:
    return why(Errc::invalid_argument,
               fmt::format("; arguments and environment may have {} bytes together", ::sysconf(_SC_ARG_MAX)));
  case EMFILE:
  case ENFILE:
    return why(Errc::unavailable, fmt::format("; a process takes three descriptors, and the limit is {} (ulimit -n)",
                                              ::sysconf(_SC_OPEN_MAX)));
  case EAGAIN:
    return why(Errc::unavailable, fmt::format("; the limit of processes is {} (ulimit -u), that of the machine or "
                                              "container may be lower",
                                              ::sysconf(_SC_CHILD_MAX)));
  case ENOMEM:
  // The file is on a network that does not answer, or is just being written.
  case ESTALE:
  case EIO:
  case ETIMEDOUT:
  case ETXTBSY:
    return why(Errc::unavailable, "");
  default:
    return why(Errc::invalid_argument, "");
  }
}

Result<Pipe> make_pipe(const Command& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail_start(command, errno);
  Pipe pipe{Descriptor{ends[0]}, above_standard(Descriptor{ends[1]})};
  // Only the parent's end is non-blocking: the child expects an ordinary, blocking output.
  if (!pipe.write || ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) != 0)
    return fail_start(command, errno);
  return pipe;
}

bool has_nul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

Result<void> check(const Command& command) {
  if (command.path.empty())
    return fail(Errc::invalid_argument, "a process was to be started without a program: a file's path is expected");
  const auto refuse = [&](std::string_view what, std::string_view why) {
    return fail(Errc::invalid_argument, fmt::format("{} cannot be started: {} {}", command.path.string(), what, why));
  };
  for (const auto& argument : command.arguments)
    if (has_nul(argument))
      return refuse("an argument", "holds the character 0, at which a program would take it to end");
  for (const auto& [name, value] : command.set) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name))
      return refuse(fmt::format("\"{}\"", name), "is no name of a variable: some characters without = are expected");
    if (has_nul(value))
      return refuse(fmt::format("the variable {}", name), "holds the character 0, at which it would end");
  }
  return {};
}

/// "NAME=value" for each variable of the child.
std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::string> result;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text{*variable};
    const std::string name{text.substr(0, text.find('='))};
    const auto& removed = command.removed;
    if (command.set.count(name) == 0 && std::find(removed.begin(), removed.end(), name) == removed.end())
      result.emplace_back(text);
  }
  for (const auto& [name, value] : command.set)
    result.push_back(fmt::format("{}={}", name, value));
  return result;
}

/// The null-terminated array for execve; the pointers point into `texts`.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (auto& text : texts)
    result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

} // namespace

Result<Spawned> spawn(const Command& command) {
  GPUACTORS_TRY(check(command));
  GPUACTORS_LET(out, make_pipe(command));
  GPUACTORS_LET(err, make_pipe(command));
  Preparation preparation;
  if (!preparation.prepare(out.write.get(), err.write.get()))
    return fail_start(command, ENOMEM);
  std::vector<std::string> arguments{command.path.string()};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  auto environment = environment_of(command);
  Spawned child;
  const int error = ::posix_spawn(&child.pid, command.path.c_str(), preparation.actions(), preparation.attributes(),
                                  pointers_to(arguments).data(), pointers_to(environment).data());
  if (error != 0)
    return fail_start(command, error);
  // The child is not reaped yet, so its pid cannot have been reused. A direct system call, since glibc has pidfd_open
  // only from 2.36 on.
  child.handle = Descriptor{static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0))};
  if (!child.handle) {
    const int open_error = errno;
    ::kill(child.pid, SIGKILL);
    static_cast<void>(reap(child.pid));
    if (open_error == ENOSYS || open_error == EPERM)
      return fail(Errc::unsupported,
                  fmt::format("{} cannot be watched: pidfd_open: {}; Linux 5.3 or newer is needed, and a container "
                              "that allows the call",
                              command.path.string(), errno_text(open_error)));
    return fail_start(command, open_error);
  }
  child.out = std::move(out.read);
  child.err = std::move(err.read);
  return child;
}

ExitStatus reap(pid_t pid) {
  const auto wait = [pid](siginfo_t& info, int options) {
    int result = -1;
    do
      result = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | options);
    while (result != 0 && errno == EINTR);
    return result == 0;
  };
  siginfo_t info{};
  // While the child is not reaped, neither its pid nor its group's id can be reused.
  if (!wait(info, WNOWAIT))
    return {};
  ::kill(-pid, SIGKILL);
  if (!wait(info, 0))
    return {};
  if (info.si_code == CLD_EXITED)
    return {ExitStatus::Kind::exited, info.si_status, false};
  return {ExitStatus::Kind::signalled, info.si_status, info.si_code == CLD_DUMPED};
}

bool is_group_gone(pid_t pid) {
  // While somebody is in the group, its id is no other process's.
  siginfo_t info{};
  while (::waitid(P_PGID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0)
    info = {};
  return ::kill(-pid, 0) != 0 && errno == ESRCH;
}

} // namespace gpuactors::detail
