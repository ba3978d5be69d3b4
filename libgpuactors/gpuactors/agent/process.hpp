// What the agent says of a child process: what to run, who it is, how it ended.
#pragma once

#include <gpuactors/base/ids.hpp>

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace gpuactors {

/// A child process among those of its table; no number is used twice.
using ProcessId = Id<struct ProcessTag>;

/// What to run.
struct Command {
  /// The program's file; not looked up in PATH.
  std::filesystem::path path;
  /// What follows the program's name.
  std::vector<std::string> arguments;
  /// The variables that differ from those of this process: these are set,
  std::map<std::string, std::string> set;
  /// and these are not there, unless they are set.
  std::vector<std::string> removed;
  /// Whom the caller takes it for; handed back with everything that happens to it.
  std::string tag;
};

/// A child process that was started.
struct Process {
  ProcessId id;
  pid_t pid = 0;
  /// From its command.
  std::string tag;
};

/// How a process ended.
struct ExitStatus {
  enum class Kind : std::uint8_t {
    /// It ended itself with the exit code `number`.
    exited,
    /// The signal `number` ended it.
    signalled,
    /// Something else in this program took its status: SIGCHLD is ignored, or there is a wait for any child.
    unknown,
  };

  Kind kind = Kind::unknown;
  int number = 0;
  /// Whether a core was written.
  bool core = false;

  /// Whether it ended itself with exit code 0.
  [[nodiscard]] bool succeeded() const noexcept {
    return kind == Kind::exited && number == 0;
  }

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// Renders what follows the name of the process: "ended with exit code 3", "was ended by signal 9 (SIGKILL)".
[[nodiscard]] std::string to_string(const ExitStatus& status);

/// Has the calling process killed when the thread that started it ends, as threads of a killed process do. To be
/// called by a child of a `ProcessTable` first of all, with the pid of the process that started it; kills the calling
/// process if that one is gone already. Holds over exec, save of set-user-ID programs, and not for children of its own.
void die_with_parent(pid_t parent) noexcept;

} // namespace gpuactors
